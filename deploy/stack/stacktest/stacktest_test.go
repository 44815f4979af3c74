package stacktest_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/deploy/stack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m, stacktest.CheckLeaks()) }

func TestGetReturnsOneStackWhoseServersAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	servers := stacktest.Get(t)
	if again := stacktest.Get(t); again != servers {
		t.Fatal("a second Get started a second stack")
	}
	conn, err := pgx.Connect(ctx, servers.PostgresURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "CREATE SCHEMA "+stacktest.Namespace(t)); err != nil {
		t.Fatal(err)
	}
}

func TestNamespaceIsValidAndUnique(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)
	seen := map[string]bool{}
	for _, name := range []string{"a", "Ünïcode/", "1234", "___", "a very long name that has to be cut somewhere in the middle"} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				ns := stacktest.Namespace(t)
				if !valid.MatchString(ns) || seen[ns] {
					t.Fatalf("namespace %q is not valid or not unique", ns)
				}
				seen[ns] = true
			}
		})
	}
}
