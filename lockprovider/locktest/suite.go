package locktest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
)

// A Case is one entry of the suite.
type Case struct {
	ID   string // group and number
	Name string
	Run  func(*Env)
	Only string // backend; "" for all
	Own  bool   // needs a server that it may stop
	Slow bool   // no lease expires in it: providers get a long TTL, so that a busy machine costs none
}

// Cases lists the suite.
func Cases() []Case {
	return slices.Concat(groupA, groupB, groupC, groupChild, groupD, groupE, groupF, groupG, groupH, groupI, groupJ, groupK, groupL)
}

// Run runs every case that applies to the harness's backend, those on the shared
// server in parallel, and prints how many there were.
func Run(t *testing.T, h Harness) {
	var all, own atomic.Int32
	m := startMeter(t, h)
	t.Run("shared", func(t *testing.T) {
		for _, c := range Cases() {
			if c.Own || (c.Only != "" && c.Only != h.Backend) {
				continue
			}
			t.Run(c.ID+"_"+c.Name, func(t *testing.T) {
				t.Parallel()
				all.Add(1)
				judge(t, h, c, m)
			})
		}
	})
	t.Run("own", func(t *testing.T) {
		for _, c := range Cases() {
			if !c.Own || (c.Only != "" && c.Only != h.Backend) {
				continue
			}
			t.Run(c.ID+"_"+c.Name, func(t *testing.T) {
				all.Add(1)
				own.Add(1)
				judge(t, h, c, m)
			})
		}
	})
	fmt.Printf("locktest: %s: %d cases run, %d of them on a server of their own\n", h.Backend, all.Load(), own.Load())
}

// RunOne runs one case, of the suite or from the field.
func RunOne(t *testing.T, h Harness, id string) {
	c, ok := find(id)
	if !ok {
		t.Fatalf("no case %q", id)
	}
	judge(t, h, c, startMeter(t, h))
}

func find(id string) (Case, bool) {
	for _, c := range slices.Concat(Cases(), fieldCases) {
		if c.ID == id {
			return c, true
		}
	}
	return Case{}, false
}
