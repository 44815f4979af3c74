package lockprovider

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// hear passes on what the server sends, until the subscriber is closed. On a cluster it
// connects anew when the namespace has moved to another node: the library stays where
// it is.
func (e *ears) hear(from <-chan any) {
	confirmed := false
	late := time.NewTicker(earsCheck)
	defer late.Stop()
	for from != nil {
		select {
		case m, ok := <-from:
			if !ok {
				return
			}
			moved := e.take(m)
			confirmed = confirmed || isConfirmation(m)
			if moved && e.b.sharded {
				from, confirmed = e.reopen(), false
			}
		case <-late.C:
			if !confirmed && e.b.sharded {
				from = e.reopen() // perhaps the wrong node, which says so once and no more
			}
		}
	}
}

func isConfirmation(m any) bool {
	s, ok := m.(*redis.Subscription)
	return ok && s.Kind == "ssubscribe"
}

// take handles one message. It tells whether the server has ended a subscription that
// is still wanted.
func (e *ears) take(m any) (moved bool) {
	switch m := m.(type) {
	case *redis.Message:
		e.message(m)
	case *redis.Subscription:
		switch m.Kind {
		case "subscribe", "ssubscribe":
			e.subscribed(m.Channel)
		case "sunsubscribe":
			return e.wants(m.Channel)
		}
	}
	return false
}

func (e *ears) wants(channel string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return channel == e.b.evictions() || e.topics[channel] != nil
}

func (e *ears) message(m *redis.Message) {
	if m.Channel == e.b.evictions() {
		e.b.core.suspect(m.Payload, Revoked)
		return
	}
	e.rouse(m.Channel, wakeMessage)
}

// subscribed: the first confirmation makes a topic live; a later one means that the
// connection was lost and messages with it, so its waiter must look.
func (e *ears) subscribed(channel string) {
	if channel == e.b.evictions() {
		e.b.core.suspectAll()
		return
	}
	e.mu.Lock()
	t := e.topics[channel]
	again := false
	if t != nil {
		select {
		case <-t.live:
			again = true
		default:
			close(t.live)
		}
	}
	e.mu.Unlock()
	if again {
		e.rouse(channel, wakeResubbed)
	}
}

func (e *ears) rouse(channel, source string) {
	e.mu.Lock()
	t := e.topics[channel]
	e.mu.Unlock()
	if t == nil {
		return
	}
	select {
	case t.wake <- source:
	default:
	}
}

// shut stops the timers of idle topics.
func (e *ears) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, t := range e.topics {
		if t.idle != nil {
			t.idle.Stop()
		}
	}
}
