package main

import (
	"math"
	"time"
)

// loadPacer says when request n (from 0) is meant to be sent, counted from the start of the run. It must not
// fall as n rises.
type loadPacer interface {
	Due(n int64) time.Duration
}

// spikePace has no schedule: a request is due when a connection is free. Latency is then counted from the
// sending and says nothing of those who queued in front of the connections; the result says so (Closed).
type spikePace struct{}

func (spikePace) Due(int64) time.Duration { return 0 }

// constantPace sends at a steady rate in requests/s; 0 or less is a spike.
func constantPace(rate float64) loadPacer {
	if rate <= 0 {
		return spikePace{}
	}
	return steadyPace{gap: float64(time.Second) / rate}
}

type steadyPace struct{ gap float64 } // ns between two requests

func (p steadyPace) Due(n int64) time.Duration { return time.Duration(float64(n) * p.gap) }

// rampPace rises (or falls) evenly from one rate to another, in requests/s, and then stays there.
type rampPace struct {
	From, To float64
	Over     time.Duration
}

// Due solves n = From·t + (To-From)/(2·Over)·t² for t, in the form that does not lose digits when both rates
// are nearly the same.
func (p rampPace) Due(n int64) time.Duration {
	over := p.Over.Seconds()
	inRamp := (p.From + p.To) / 2 * over
	if float64(n) >= inRamp {
		return p.Over + time.Duration((float64(n)-inRamp)/p.To*float64(time.Second))
	}
	slope := (p.To - p.From) / over
	root := math.Sqrt(max(0, p.From*p.From+2*slope*float64(n)))
	if n == 0 {
		return 0
	}
	return time.Duration(2 * float64(n) / (p.From + root) * float64(time.Second))
}

// stepPace keeps one rate after another, and then the last.
type stepPace []paceStep

type paceStep struct {
	rate float64 // requests/s
	over time.Duration
}

func (p stepPace) Due(n int64) time.Duration {
	var began time.Duration
	left := float64(n)
	for i, s := range p {
		if in := s.rate * s.over.Seconds(); left >= in && i < len(p)-1 {
			left -= in
			began += s.over
			continue
		}
		return began + time.Duration(left/s.rate*float64(time.Second))
	}
	return began
}
