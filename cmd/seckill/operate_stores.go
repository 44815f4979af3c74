package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// commandPatience is how long a command waits for a store, unless the configuration
// says otherwise: who typed it wants to know soon.
const commandPatience = 5 * time.Second

// withStores runs the work of a command that needs the three stores.
func (p *program) withStores(cmd *cobra.Command, do func(context.Context, *stores, Config) error) error {
	c, err := p.loadConfig(cmd)
	if err != nil {
		return err
	}
	if err := c.need("POSTGRES_URL"); err != nil {
		return err
	}
	if c.origin("START_TIMEOUT") == originDefault {
		c.StartTimeout = commandPatience
	}
	s, err := openStores(cmd.Context(), c)
	if err != nil {
		return err
	}
	defer s.close()
	return do(cmd.Context(), s, c)
}

// originDefault is the origin of a value that nobody has set.
const originDefault = "default"
