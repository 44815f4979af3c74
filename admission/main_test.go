package admission

import (
	"testing"

	"seckill/deploy/stack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m, stacktest.CheckLeaks()) }
