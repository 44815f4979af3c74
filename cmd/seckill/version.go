package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildVersion says which build this is, as the Go tool stamped it.
type buildVersion struct {
	Version string `json:"version"` // module version; "(devel)" for a build without one
	Commit  string `json:"commit"`  // "unknown" if built outside a checkout; "-dirty" appended for local changes
	Go      string `json:"go"`
}

func newVersionCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print which build this is",
		Example: "  seckill version\n  seckill version --output json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			return p.show(v, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "version\t%s\ncommit\t%s\ngo\t%s\n", v.Version, v.Commit, v.Go)
			})
		},
	}
}

// readVersion reads the stamp of the running binary.
func readVersion() buildVersion {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return buildVersion{Version: "unknown", Commit: "unknown", Go: "unknown"}
	}
	v := buildVersion{Version: info.Main.Version, Commit: "unknown", Go: info.GoVersion}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty {
		v.Commit += "-dirty"
	}
	return v
}
