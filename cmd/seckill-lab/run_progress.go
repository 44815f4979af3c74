package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

const progressEvery = 100 * time.Millisecond

// showProgress draws a bar while the crowd asks, on a terminal only. requests is 0 if their number is not known.
// The function it returns ends it.
func showProgress(to io.Writer, t *counters, requests int64) (stop func()) {
	file, ok := to.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		if requests > 0 {
			fmt.Fprintf(to, "sending %s requests\n", humanize.Comma(requests))
		} else {
			fmt.Fprintln(to, "sending requests")
		}
		return func() {}
	}
	progress := mpb.New(mpb.WithOutput(to), mpb.WithWidth(40), mpb.WithRefreshRate(progressEvery))
	bar := progress.AddBar(requests,
		mpb.PrependDecorators(decor.Name("the crowd asks ")),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Any(func(decor.Statistics) string {
			return fmt.Sprintf("  admitted %s  refused %s",
				humanize.Comma(t.accepted.Load()), humanize.Comma(t.refused.Load()))
		})),
	)
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				bar.SetCurrent(t.answers.Load())
			case <-quit:
				bar.SetCurrent(t.answers.Load())
				bar.Abort(false) // does nothing to a bar that is full
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-over
		progress.Wait()
	}
}
