package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// consumerDeleted removes the durable consumer of the sale's partition.
func consumerDeleted() fault {
	var name string
	return fault{
		about: "the durable consumer that settles the sale is deleted", lasts: 100 * time.Millisecond,
		strike: func(ctx context.Context, f *field) (string, error) {
			return "", f.onStream(ctx, func(ctx context.Context, s jetstream.Stream) error {
				for info := range s.ListConsumers(ctx).Info() {
					if info.Delivered.Consumer > 0 && info.NumAckPending+int(info.NumPending) > 0 {
						name, f.created = info.Name, info.Created
						return s.DeleteConsumer(ctx, name)
					}
				}
				return errors.New("no consumer has work in hand")
			})
		},
		heal: func(ctx context.Context, f *field) (proof string, err error) {
			err = f.onStream(ctx, func(ctx context.Context, s jetstream.Stream) error {
				c, err := s.Consumer(ctx, name)
				switch {
				case errors.Is(err, jetstream.ErrConsumerNotFound):
					proof = name + " is gone"
				case err != nil:
					return err
				case c.CachedInfo().Created.Equal(f.created):
					return fmt.Errorf("%s is not proven to have been deleted", name)
				default:
					proof = fmt.Sprintf("%s was made anew %v later", name, c.CachedInfo().Created.Sub(f.created).Round(time.Millisecond))
				}
				return nil
			})
			return proof, err
		},
	}
}

// streamDeleted removes the whole order log.
func streamDeleted() fault {
	return fault{
		about: "the stream of the order log is deleted", lasts: 100 * time.Millisecond,
		strike: func(ctx context.Context, f *field) (proof string, err error) {
			err = f.onStream(ctx, func(ctx context.Context, s jetstream.Stream) error {
				f.created = s.CachedInfo().Created
				proof = fmt.Sprintf("%d messages deleted", s.CachedInfo().State.Msgs)
				nc, err := f.nats()
				if err != nil {
					return err
				}
				defer nc.Close()
				js, err := jetstream.New(nc)
				if err != nil {
					return err
				}
				return js.DeleteStream(ctx, f.stream())
			})
			return proof, err
		},
		heal: func(ctx context.Context, f *field) (string, error) {
			err := f.onStream(ctx, func(_ context.Context, s jetstream.Stream) error {
				if s.CachedInfo().Created.Equal(f.created) {
					return errors.New("it is not proven to have been deleted")
				}
				return nil
			})
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				err = nil
			}
			return "", err
		},
	}
}

// onStream does something with the order log, past the service.
func (f *field) onStream(ctx context.Context, do func(context.Context, jetstream.Stream) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	nc, err := f.nats()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	stream, err := js.Stream(ctx, f.stream())
	if err == nil {
		err = do(ctx, stream)
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", f.stream(), err)
	}
	return nil
}
