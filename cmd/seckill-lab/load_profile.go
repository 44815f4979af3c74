package main

import (
	"fmt"
	"time"
)

// The profiles of a load.
const (
	constantProfile = "constant"
	rampProfile     = "ramp"
	spikeProfile    = "spike"
)

// quietPart is the rate before and after a spike, as a part of it.
const quietPart = 0.1

// profile is when how many requests are meant to be sent.
type profile struct {
	Name     string
	Rate     float64 // requests/s at the highest; 0: no schedule
	Duration time.Duration
}

// steps of a spike: a fifth of the time quiet, two fifths at the full rate at once, quiet again.
func (p profile) steps() stepPace {
	quiet := p.Rate * quietPart
	return stepPace{{quiet, p.Duration / 5}, {p.Rate, 2 * p.Duration / 5}, {quiet, 2 * p.Duration / 5}}
}

// schedule is the pace and how many requests there are in the time. Without a schedule the number is unknown.
func (p profile) schedule() (loadPacer, int64, error) {
	switch {
	case p.Duration < time.Second || p.Duration > time.Hour:
		return nil, 0, fmt.Errorf("--duration is %v: choose 1s to 1h", p.Duration)
	case p.Rate < 0 || p.Rate > 1e6:
		return nil, 0, fmt.Errorf("--rate is %v: choose 0 (as fast as the connections allow) to 1000000", p.Rate)
	case p.Rate == 0 && p.Name != constantProfile:
		return nil, 0, fmt.Errorf("--rate is 0 and --profile %s: a %[1]s needs a rate", p.Name)
	}
	var pace loadPacer
	var requests float64
	switch p.Name {
	case constantProfile:
		if p.Rate == 0 {
			return spikePace{}, unending, nil
		}
		pace, requests = constantPace(p.Rate), p.Rate*p.Duration.Seconds()
	case rampProfile:
		pace, requests = rampPace{To: p.Rate, Over: p.Duration}, p.Rate*p.Duration.Seconds()/2
	case spikeProfile:
		steps := p.steps()
		for _, s := range steps {
			requests += s.rate * s.over.Seconds()
		}
		pace = steps
	default:
		return nil, 0, fmt.Errorf("--profile is %q: use constant, ramp or spike", p.Name)
	}
	return pace, max(1, int64(requests)), nil
}

// unending is a number of requests that no run reaches: its time ends it.
const unending = int64(1) << 40
