package lockprovider

import (
	"github.com/redis/go-redis/v9"
)

// hear passes on what the server sends, until the subscriber is closed.
func (e *ears) hear(from <-chan any) {
	for m := range from {
		switch m := m.(type) {
		case *redis.Message:
			e.message(m)
		case *redis.Subscription:
			if m.Kind == "subscribe" || m.Kind == "ssubscribe" {
				e.subscribed(m.Channel)
			}
		}
	}
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
