package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	quietRate  = 200 // requests/s of the quiet sale
	spreadOver = 16
	loadedPart = 0.8 // of the admitted rate is offered: at all of it every queue grows without a bound
)

// measureQuiet compares a quiet sale beside one loaded one with the same beside many.
func (m *measuring) measureQuiet(ctx context.Context) (err error) {
	s, err := openStand(ctx, m.words, m.options.program, "etcd")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	rate := loadedPart * medianOf(m.rates.admitted)
	var one, spread []float64
	for round := range m.rounds {
		for _, c := range []struct {
			into *[]float64
			n    int
		}{{&one, 1}, {&spread, spreadOver}} {
			p99, err := m.quietBeside(ctx, s, fmt.Sprintf("%d-%d", round, c.n), c.n, rate)
			if err != nil {
				return fmt.Errorf("round %d, load on %d: %w", round+1, c.n, err)
			}
			*c.into = append(*c.into, p99)
		}
		fmt.Fprintf(m.words, "  round %d: p99 %.1f ms beside one, %.1f ms beside %d\n", round+1, one[round], spread[round], spreadOver)
	}
	ratio := medianOf(ratios(one, spread))
	m.row(resultRow{
		fmt.Sprintf("p99 of a quiet sale beside one with %s/s", count(int64(rate))), fmt.Sprintf("%.1f ms", medianOf(one)),
		fmt.Sprintf("beside %d with that together %.1f ms", spreadOver, medianOf(spread)), fmt.Sprintf("%.2f", ratio), "at most 2", ratio <= 2,
	})
	return nil
}

// quietBeside sends two loads at once and returns the quiet one's p99 of the 202, in ms.
func (m *measuring) quietBeside(ctx context.Context, s *stand, name string, activities int, rate float64) (float64, error) {
	var loud []string
	for n := range activities {
		loud = append(loud, fmt.Sprintf("loud-%s-%d", name, n))
	}
	t, quiet := m.auditedTarget(s, loud...), m.auditedTarget(s, "quiet-"+name)
	for _, activity := range append(loud, quiet.activities...) {
		if err := s.serving.openSKUs(ctx, activity, "Results", t.skus, fullUnits, 1); err != nil {
			return 0, err
		}
	}
	quiet.admins = nil // the other load waits for the settlement of both
	type outcome struct {
		sent *sent
		err  error
	}
	beside := make(chan outcome, 1)
	quietThrong := newThrong(quiet.offers(), 1<<30, 0, 2)
	go func() {
		out, err := sendOnly(ctx, io.Discard, quiet, m.load(quietRate, m.each, quietThrong))
		beside <- outcome{out, err}
	}()
	_, err := m.clean(ctx, t, m.load(rate, m.each, newThrong(t.offers(), 1<<30, 0, 1)))
	got := <-beside
	if err := errors.Join(err, got.err); err != nil {
		return 0, err
	}
	return p99Of(got.sent, "202"), nil
}
