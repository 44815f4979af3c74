package lockprovider

// mostResting is how many goroutines wait for the next store call.
const mostResting = 1

// run does store calls on a goroutine that has done some before, if one is free: a
// fresh one would grow its stack each time. The caller has begun the work.
func (c *core) run(f func()) {
	select {
	case c.errands <- f:
	default:
		c.wg.Add(1)
		go c.serve(f)
	}
}

func (c *core) serve(f func()) {
	defer c.wg.Done()
	for {
		f()
		if c.resting.Add(1) > mostResting {
			c.resting.Add(-1)
			return
		}
		select {
		case f = <-c.errands:
			c.resting.Add(-1)
		case <-c.ctx.Done():
			return
		}
	}
}
