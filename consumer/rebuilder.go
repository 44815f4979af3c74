package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/admission"
	"seckill/lockprovider"
)

const (
	rebuilderPeriod = 500 * time.Millisecond
	// rebuildsAtOnce bounds how many gates one process rebuilds side by side.
	rebuildsAtOnce = 8
	// rebuildTimeout bounds one rebuild; the next look begins another.
	rebuildTimeout = 5 * time.Minute
)

// Rebuilder watches the gates of all activities on sale and rebuilds one that
// cannot be right: absent, left closed, of another epoch than the ledger's, on
// another Redis than it was filled on, or suspect. Any number of processes may run
// one; a lease picks who rebuilds a gate.
type Rebuilder struct {
	Rebuild *admission.Rebuild
	Ledger  *Ledger
	Leases  *lockprovider.Provider
	Logger  *slog.Logger
}

// Run watches until ctx ends.
func (r *Rebuilder) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.Round(ctx); err != nil && ctx.Err() == nil {
			r.Logger.Warn("gates could not all be looked at; they are looked at again", "error", err)
		}
		pause(ctx, rebuilderPeriod)
	}
}

// Round looks at every gate once.
func (r *Rebuilder) Round(ctx context.Context) error {
	ids, err := r.Ledger.OnSale(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(rebuildsAtOnce)
	errs := make([]error, len(ids))
	for i, id := range ids {
		group.Go(func() error {
			errs[i] = r.look(ctx, id)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

func (r *Rebuilder) look(ctx context.Context, id string) error {
	why, err := r.Rebuild.Needed(ctx, id)
	if err != nil || why == "" {
		return err
	}
	lease, err := r.Leases.TryAcquire(ctx, "rebuild/"+id, lockprovider.WithNote(why), lockprovider.WithPurpose("rebuild"))
	if errors.Is(err, lockprovider.ErrHeld) {
		return nil // somebody works on it
	}
	if err != nil {
		return err
	}
	defer func() {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = lease.Release(release)
	}()
	// It may have been done while this process looked.
	if why, err = r.Rebuild.Needed(ctx, id); err != nil || why == "" {
		return err
	}
	r.Logger.Warn("rebuilding a gate", "activity", id, "reason", why)
	work, cancel := context.WithTimeout(lease.Context(), rebuildTimeout)
	defer cancel()
	_, err = r.Rebuild.Run(work, id)
	if errors.Is(err, admission.ErrSuperseded) {
		return nil
	}
	return err
}
