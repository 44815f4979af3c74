package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"seckill/admission"
	"seckill/consumer"
)

// commandPatience is how long a command waits for a store, unless the configuration
// says otherwise: who typed it wants to know soon.
const commandPatience = 5 * time.Second

// originDefault is the origin of a value that nobody has set.
const originDefault = "default"

// withStores runs the work of a command that needs the three stores.
func (p *program) withStores(cmd *cobra.Command, do func(context.Context, *stores, Config) error) error {
	c, err := p.commandConfig(cmd)
	if err != nil {
		return err
	}
	s, err := openStores(cmd.Context(), c)
	if err != nil {
		return err
	}
	defer s.close()
	return plainError(do(cmd.Context(), s, c))
}

// commandConfig is the configuration of a command that works on the ledger.
func (p *program) commandConfig(cmd *cobra.Command) (Config, error) {
	c, err := p.loadConfig(cmd)
	if err != nil {
		return c, err
	}
	if c.origin("START_TIMEOUT") == originDefault {
		c.StartTimeout = commandPatience
	}
	return c, c.need("POSTGRES_URL")
}

// withLedger runs the work of a command that needs only the ledger.
func (p *program) withLedger(cmd *cobra.Command, do func(context.Context, *stores, Config) error) error {
	c, err := p.commandConfig(cmd)
	if err != nil {
		return err
	}
	s, err := openLedger(cmd.Context(), c)
	if err != nil {
		return err
	}
	defer s.close()
	return plainError(do(cmd.Context(), s, c))
}

func openLedger(ctx context.Context, c Config) (*stores, error) {
	ctx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	s := &stores{}
	if err := s.openLedger(ctx, c); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// plainError says in one line what a command's error means to who typed it.
func plainError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P01" && !errors.Is(err, consumer.ErrNotMigrated) {
		return fmt.Errorf("%w: %s", consumer.ErrNotMigrated, pg.Message)
	}
	var problem *admission.Problem
	if errors.As(err, &problem) && problem.Status < 500 && problem.Cause == nil {
		return fmt.Errorf("%s (%s)", problem.Detail, problem.Code)
	}
	return err
}

// belongs makes sure that what this command writes lands where the workers look: the
// number of partitions must be the recorded one. On a new installation it records
// this configuration, as the first start of a worker would.
func (s *stores) belongs(ctx context.Context, c Config) error {
	recorded, err := s.ledger.Installation(ctx)
	if errors.Is(err, consumer.ErrNotInstalled) {
		return s.ledger.Join(ctx, c.LockBackend, c.Partitions)
	}
	if err != nil {
		return err
	}
	if err := recorded.CheckPartitions(c.Partitions); err != nil {
		return wrongUsage(err)
	}
	return nil
}
