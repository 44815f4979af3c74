// Command grafana writes the dashboards of this folder: what is committed is what it
// writes, and a test compares the two. Run it from the top of the tree:
//
//	go run ./deploy/grafana
//
// Every query is evaluated against a live sale by a test of cmd/seckill.
package main

//lint:file-ignore SA1019 the second model of dashboards needs a new Grafana; every one imports the first

import (
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	files, err := generate()
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join("deploy", "grafana", name), files[name], 0o600); err != nil {
			log.Fatal(err)
		}
	}
}

// generate returns the dashboards as files.
func generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, b := range map[string]*dashboard.DashboardBuilder{"sale.json": saleBoard(), "pipeline.json": pipelineBoard()} {
		board, err := b.Build()
		if err != nil {
			return nil, fmt.Errorf("build dashboard %s: %w", name, err)
		}
		text, err := json.MarshalIndent(board, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encode dashboard %s: %w", name, err)
		}
		files[name] = append(text, '\n')
	}
	return files, nil
}
