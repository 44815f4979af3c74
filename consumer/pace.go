package consumer

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// Pace bounds how many orders a worker settles, so that a rush is spread over the time
// that the systems behind can bear; what waits is in the log. Safe for concurrent use;
// a nil Pace bounds nothing.
type Pace struct{ limit *rate.Limiter }

// NewPace returns a pace of one order in every interval, nil for 0. After a lull as many
// orders as one transaction takes go at once.
func NewPace(every time.Duration) *Pace {
	if every <= 0 {
		return nil
	}
	p := &Pace{limit: rate.NewLimiter(rate.Every(every), settleOrders)}
	p.limit.ReserveN(time.Now(), settleOrders) // it begins with its pace, not with a rush
	return p
}

// wait returns when the orders of the first n messages may be settled, at once when
// taking ends: what is in hand then is finished. It holds no transaction meanwhile, has the log wait
// for all messages, and ends with the hold.
func (p *Pace) wait(taking, hold context.Context, messages []message, n int, ackWait time.Duration) error {
	if p == nil {
		return nil
	}
	orders := 0
	for _, m := range messages[:n] {
		orders += len(m.Orders)
	}
	turn := p.limit.ReserveN(time.Now(), min(orders, settleOrders))
	for left := turn.Delay(); left > 0 && taking.Err() == nil; left = turn.Delay() {
		waiting, cancel := context.WithCancel(hold)
		stop := context.AfterFunc(taking, cancel)
		pause(waiting, min(left, ackWait/3))
		stop()
		cancel()
		if hold.Err() != nil {
			turn.Cancel() // whoever has the partition next counts them
			return context.Cause(hold)
		}
		keepAlive(messages)
	}
	return nil
}
