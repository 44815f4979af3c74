package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/cobra"
)

func newDoctorCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check that the servers and settings keep what is promised",
		Long: `Check that the servers and settings keep what is promised.

Asks NATS, Redis, Postgres and etcd, and changes nothing. Each finding says what was
found, which promise breaks and how, and how to mend it:

  G1 nothing is oversold          G4 no unit is stranded
  G2 nobody gets above the limit  G5 repeats have no second effect
  G3 no accepted order is lost    G6 one settler at a time can write

Severity: serious, a promise can break; warning, answers or the time without sales
get worse; note, worth knowing. What cannot be seen is called unknown, with what to
give. Ends with 0 if nothing was found, 3 with findings, 1 if no store answered.`,
		Example: `  seckill doctor
  seckill doctor --nats-monitor-url http://nats-1:8222
  seckill doctor --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.commandConfig(cmd)
			if err != nil {
				return err
			}
			return p.doctor(cmd.Context(), c)
		},
	}
	settingFlags(cmd)
	return cmd
}

// The results of a check.
const (
	resultOK      = "ok"
	resultFinding = "finding"
	resultUnknown = "unknown"
)

// severity orders findings, the worst last.
type severity string

const (
	note    severity = "note"    // worth knowing
	warning severity = "warning" // answers, or the time without sales, get worse
	serious severity = "serious" // a promise can break
)

var severities = []severity{note, warning, serious}

// check is one thing that was looked at.
type check struct {
	Store    string   `json:"store"`
	Name     string   `json:"check"`
	Result   string   `json:"result"`
	Severity severity `json:"severity,omitempty"`
	Found    string   `json:"found"`
	Breaks   string   `json:"breaks,omitempty"` // the promise or answer, and how
	Mend     string   `json:"mend,omitempty"`   // exactly; of an unknown: what to give

	durable bool // of what a 202 is worth
}

// checks collects what was looked at in one store.
type checks struct {
	store   string
	list    []check
	reached bool // the store answered
}

func (c *checks) ok(name, found string, args ...any) {
	c.list = append(c.list, check{Store: c.store, Name: name, Result: resultOK, Found: fmt.Sprintf(found, args...)})
}

func (c *checks) unknown(name, found, give string) *check {
	c.list = append(c.list, check{Store: c.store, Name: name, Result: resultUnknown, Found: found, Mend: give})
	return &c.list[len(c.list)-1]
}

func (c *checks) finding(s severity, name, found, breaks, mend string) *check {
	c.list = append(c.list, check{Store: c.store, Name: name, Result: resultFinding, Severity: s, Found: found, Breaks: breaks, Mend: mend})
	return &c.list[len(c.list)-1]
}

// away notes a store that does not answer.
func (c *checks) away(err error, breaks, setting string) {
	c.finding(serious, "reachable", "does not answer: "+oneLine(err.Error()), breaks, "start it, or check "+setting)
}

// lasting marks a check as one of what a 202 is worth.
func (c *check) lasting() { c.durable = true }

// diagnosis is what seckill doctor prints.
type diagnosis struct {
	OK     bool    `json:"ok"` // no finding; unknowns do not count
	Checks []check `json:"checks"`
	Next   string  `json:"next,omitempty"` // the one obvious step
}

// examine asks all stores side by side.
func examine(ctx context.Context, c Config) ([]*checks, error) {
	ctx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	clocks := &clockReadings{}
	parts := []struct {
		store string
		look  func(context.Context, Config, *checks, *clockReadings)
	}{
		{"nats", lookAtNATS}, {"redis", lookAtRedis}, {"postgres", lookAtPostgres}, {"etcd", lookAtEtcd},
	}
	all := make([]*checks, len(parts))
	var looking sync.WaitGroup
	for i, part := range parts {
		all[i] = &checks{store: part.store}
		looking.Go(func() { part.look(ctx, c, all[i], clocks) })
	}
	looking.Wait()
	if !slices.ContainsFunc(all, func(c *checks) bool { return c.reached }) {
		var errs []error
		for _, c := range all {
			for _, found := range c.list {
				if found.Name == "reachable" {
					errs = append(errs, fmt.Errorf("doctor: %s %s; %s", c.store, found.Found, found.Mend))
				}
			}
		}
		return nil, errors.Join(append(errs, errors.New("doctor: no store answered: nothing could be checked"))...)
	}
	if all[0].reached && all[1].reached && all[2].reached { // else opening them would only wait
		lookAtBacklog(ctx, c, all[0])
	}
	setup := &checks{store: "settings"}
	lookAtClocks(clocks, setup)
	lookAtSettings(c, setup)
	return append(all, setup), nil
}

func (p *program) doctor(ctx context.Context, c Config) error {
	all, err := examine(ctx, c)
	if err != nil {
		return err
	}
	d := diagnose(all)
	if err := p.show(d, func(w io.Writer) { diagnosisTable(w, d) }); err != nil {
		return err
	}
	if n := d.count(resultFinding); n > 0 {
		return finding(errors.New(counted(n, "finding")))
	}
	return nil
}

func diagnose(all []*checks) diagnosis {
	d := diagnosis{Checks: []check{}}
	for _, c := range all {
		d.Checks = append(d.Checks, c.list...)
	}
	d.OK = d.count(resultFinding) == 0
	worst := -1
	for _, c := range d.Checks {
		if rank := slices.Index(severities, c.Severity); rank > worst {
			worst, d.Next = rank, c.Mend
		}
	}
	if d.Next == "" {
		if i := slices.IndexFunc(d.Checks, func(c check) bool { return c.Result == resultUnknown }); i >= 0 {
			d.Next = d.Checks[i].Mend
		}
	}
	return d
}

func (d diagnosis) count(result string) int {
	n := 0
	for _, c := range d.Checks {
		if c.Result == result {
			n++
		}
	}
	return n
}

func diagnosisTable(w io.Writer, d diagnosis) {
	_, _ = fmt.Fprintln(w, "STORE\tCHECK\tRESULT\tFOUND")
	for _, c := range d.Checks {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Store, c.Name, c.word(), c.Found)
	}
	for _, c := range d.Checks {
		switch c.Result {
		case resultFinding:
			_, _ = fmt.Fprintf(w, "\n%s: %s, %s: %s\n  breaks: %s\n  mend: %s\n", c.Severity, c.Store, c.Name, c.Found, c.Breaks, c.Mend)
		case resultUnknown:
			_, _ = fmt.Fprintf(w, "\nunknown: %s, %s: %s\n  give: %s\n", c.Store, c.Name, c.Found, c.Mend)
		}
	}
	_, _ = fmt.Fprintf(w, "\n%d ok, %d findings, %d unknown\n", d.count(resultOK), d.count(resultFinding), d.count(resultUnknown))
	if d.Next != "" {
		_, _ = fmt.Fprintf(w, "next: %s\n", d.Next)
	}
}

func (c check) word() string {
	if c.Result == resultFinding {
		return string(c.Severity)
	}
	return c.Result
}
