package lockprovider

import (
	"context"
	"time"
)

type core struct{}

func (c *core) acquire(context.Context, string, bool, []Option) (*Lease, error) {
	return nil, ErrUnavailable
}

func (c *core) inspect(context.Context, string) (Info, error) { return Info{}, ErrUnavailable }

func (c *core) list(context.Context, string) ([]Info, error)       { return nil, ErrUnavailable }
func (c *core) forceRelease(context.Context, string, uint64) error { return ErrUnavailable }
func (c *core) close(context.Context) error                        { return nil }
func do(context.Context, *Provider, string, func(context.Context, *Lease) error, []Option) error {
	return ErrUnavailable
}

type hold struct {
	name, owner string
	token       uint64
	granted     time.Duration
}

func (h *hold) err() error                    { return ErrUnavailable }
func (h *hold) remaining() time.Duration      { return 0 }
func (h *hold) verify(context.Context) error  { return ErrUnavailable }
func (h *hold) release(context.Context) error { return ErrUnavailable }
