package main

import "time"

// courseWidth is what one point of the course spans.
const courseWidth = 100 * time.Millisecond

// course is a load in time: what happened in each span of the run. Its size is that of the longest run that is
// allowed. One goroutine fills it.
type course struct {
	width time.Duration
	spans []span
	times *loadTimes // of the answers of the newest span
}

// span is one point of a course.
type span struct {
	asked, answered, admitted int64
	p50, p99                  time.Duration // of the answers that came in it, 0 if none
	settled                   int64         // since the start, by its end; filled in later
}

func newCourse(width time.Duration) *course {
	return &course{width: width, times: newLoadTimes()}
}

// at is the span of a moment. Opening a new one closes the ones before.
func (c *course) at(moment time.Duration) *span {
	n := int(moment / c.width)
	for len(c.spans) <= n {
		c.close()
		c.spans = append(c.spans, span{})
	}
	return &c.spans[n]
}

// close notes the percentiles of the newest span.
func (c *course) close() {
	if len(c.spans) == 0 || c.times.Count() == 0 {
		return
	}
	last := &c.spans[len(c.spans)-1]
	last.p50, last.p99 = c.times.At(50), c.times.At(99)
	c.times = newLoadTimes()
}

func (c *course) answered(a *loadAnswer) {
	c.at(a.Intended).asked++
	s := c.at(a.Done)
	if a.Status == 0 {
		return
	}
	s.answered++
	if a.Status == 202 {
		s.admitted++
	}
	c.times.record(a.Latency())
}

// settledBy lays what was seen of the settlement over the spans, and adds spans until its end.
func (c *course) settledBy(samples []sample) {
	c.close()
	if len(samples) == 0 {
		return
	}
	c.at(samples[len(samples)-1].at)
	next, last := 0, int64(0)
	for n := range c.spans {
		for end := time.Duration(n+1) * c.width; next < len(samples) && samples[next].at <= end; next++ {
			last = samples[next].settled
		}
		c.spans[n].settled = last
	}
}
