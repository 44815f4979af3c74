package lockprovider

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	linger       = time.Second // a subscription outlives its last waiter by this
	earBuffer    = 1024        // messages that may wait for the dispatcher
	earsCheck    = 3 * time.Second
	wakeMessage  = "message"
	wakeResubbed = "resubscribe"
	wakeTimer    = "timer"
)

// ears is the one subscriber connection of a provider: a wake-up channel per name
// with waiters, and the namespace's eviction channel.
type ears struct {
	b *redisBackend

	mu     sync.Mutex
	sub    *redis.PubSub
	closed bool
	topics map[string]*topic // by channel
	work   chan func(context.Context, *redis.PubSub)
	once   sync.Once
}

// A topic is one channel with the waiter that listens to it (one at a time: the head
// of the name's line).
type topic struct {
	channel string
	wake    chan string   // what happened; holds one
	live    chan struct{} // closed once the server has confirmed the subscription
	users   int
	idle    *time.Timer
}

func newEars(b *redisBackend) *ears {
	return &ears{b: b, topics: map[string]*topic{}, work: make(chan func(context.Context, *redis.PubSub), 256)}
}

// start subscribes to the evictions; the first grant or waiter calls it.
func (e *ears) start() {
	if e.b.off.push && e.b.off.timer {
		return
	}
	e.once.Do(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.closed || e.b.core.ctx.Err() != nil {
			return
		}
		heard := e.open()
		c := e.b.core
		c.wg.Add(2)
		go func() {
			defer c.wg.Done()
			e.hear(heard)
		}()
		go func() {
			defer c.wg.Done()
			e.speak(c.ctx)
		}()
	})
}

// open makes the subscriber, which connects in the background. A cluster's subscriber
// has to know a channel of the namespace when it connects, or it takes any node; the
// cancelled context makes it note the channels and send nothing yet. e.mu is held.
func (e *ears) open() <-chan any {
	var channels []string
	if !e.b.off.push {
		channels = append(channels, e.b.evictions())
	}
	for channel := range e.topics {
		channels = append(channels, channel)
	}
	noted, cancel := context.WithCancel(context.Background())
	cancel()
	if e.b.sharded {
		e.sub = e.b.client.SSubscribe(noted, channels...)
	} else {
		e.sub = e.b.client.Subscribe(noted, channels...)
	}
	return e.sub.ChannelWithSubscriptions(redis.WithChannelSize(earBuffer), redis.WithChannelHealthCheckInterval(earsCheck))
}

// reopen connects anew, to whatever node has the namespace now; nil if the provider ends.
func (e *ears) reopen() <-chan any {
	if c, ok := e.b.client.(*redis.ClusterClient); ok {
		c.ReloadState(e.b.core.ctx)
	}
	e.mu.Lock()
	old := e.sub
	var heard <-chan any
	if e.b.core.ctx.Err() == nil && !e.closed {
		heard = e.open()
	}
	e.mu.Unlock()
	_ = old.Close()
	return heard
}

// subscriber is the present one.
func (e *ears) subscriber() *redis.PubSub {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sub
}

// queue hands a command to the goroutine that owns the writing side; a slow or dead
// server then delays no waiter. It never blocks for long: commands are few (one for
// each name that gets or loses its only waiter).
func (e *ears) queue(f func(context.Context, *redis.PubSub)) {
	select {
	case e.work <- f:
	case <-e.b.core.ctx.Done():
	}
}

func (e *ears) speak(ctx context.Context) {
	for {
		select {
		case f := <-e.work:
			cctx, cancel := context.WithTimeout(ctx, callLimit(e.b.core.cfg.TTL))
			f(cctx, e.subscriber())
			cancel()
		case <-ctx.Done():
			_ = e.subscriber().Close()
			return
		}
	}
}

// subscribe: a failure is repaired by the library, which subscribes again to all it
// knows when it has a connection.
func (e *ears) subscribe(ctx context.Context, sub *redis.PubSub, channel string) {
	if e.b.sharded {
		_ = sub.SSubscribe(ctx, channel)
		return
	}
	_ = sub.Subscribe(ctx, channel)
}

func (e *ears) unsubscribe(ctx context.Context, sub *redis.PubSub, channel string) {
	if e.b.sharded {
		_ = sub.SUnsubscribe(ctx, channel)
		return
	}
	_ = sub.Unsubscribe(ctx, channel)
}

// listen returns the topic of a name, subscribing if nobody has yet.
func (e *ears) listen(name string) *topic {
	e.start()
	channel := e.b.wakeChannel(name)
	e.mu.Lock()
	t := e.topics[channel]
	fresh := t == nil
	if fresh {
		t = &topic{channel: channel, wake: make(chan string, 1), live: make(chan struct{})}
		e.topics[channel] = t
	}
	t.users++
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	e.mu.Unlock()
	if fresh {
		e.queue(func(ctx context.Context, sub *redis.PubSub) { e.subscribe(ctx, sub, channel) })
	}
	return t
}

// hears tells whether the channel of a name is subscribed to and confirmed.
func (e *ears) hears(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.topics[e.b.wakeChannel(name)]
	if t == nil {
		return false
	}
	select {
	case <-t.live:
		return true
	default:
		return false
	}
}

// unlisten lets the subscription go after a while without another waiter.
func (e *ears) unlisten(t *topic) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.users--
	if t.users > 0 || e.closed {
		return
	}
	t.idle = time.AfterFunc(linger, func() { e.drop(t) })
}

func (e *ears) drop(t *topic) {
	e.mu.Lock()
	stale := t.users > 0 || e.topics[t.channel] != t || e.closed
	if !stale {
		delete(e.topics, t.channel)
	}
	e.mu.Unlock()
	if stale {
		return
	}
	e.queue(func(ctx context.Context, sub *redis.PubSub) {
		e.mu.Lock()
		again := e.topics[t.channel] != nil // somebody came back in the meantime
		e.mu.Unlock()
		if !again {
			e.unsubscribe(ctx, sub, t.channel)
		}
	})
}

// confirmed waits until the subscription is live; if the server is slow the waiter
// goes on without, and its timer covers for the messages it may miss.
func (e *ears) confirmed(ctx context.Context, t *topic, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.live:
	case <-timer.C:
	case <-ctx.Done():
	}
}
