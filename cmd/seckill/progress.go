package main

import (
	"io"
	"os"
	"slices"
	"sync"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is a bar on standard error, if that is a terminal; else it does nothing.
// Its methods may be called from one goroutine at a time; end any number of times.
type progress struct {
	bars *mpb.Progress
	bar  *mpb.Bar
	once sync.Once
}

// newProgress draws a bar, without colours, for work that is counted in units such as
// "messages".
func (p *program) newProgress(what, units string) *progress {
	f, ok := p.stderr.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) || slices.Contains(p.environ(), "TERM=dumb") {
		return &progress{}
	}
	bars := mpb.New(mpb.WithOutput(f), mpb.WithWidth(40))
	bar := bars.AddBar(
		0, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(what+" ")),
		mpb.AppendDecorators(decor.CountersNoUnit("%d / %d "+units+" "), decor.AverageETA(decor.ET_STYLE_GO)),
	)
	return &progress{bars: bars, bar: bar}
}

// set says how much is done, and of how much.
func (p *progress) set(done, of uint64) {
	if p.bar == nil {
		return
	}
	p.bar.SetTotal(int64(of), false)
	p.bar.SetCurrent(int64(done))
}

// beside is where to write what goes to w while the bar is drawn: above it, if w is a
// terminal too.
func (p *progress) beside(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && p.bar != nil && isatty.IsTerminal(f.Fd()) {
		return p.bars
	}
	return w
}

// end removes the bar and waits until the terminal is left alone.
func (p *progress) end() {
	p.once.Do(func() {
		if p.bar != nil {
			p.bar.Abort(true)
			p.bars.Wait()
		}
	})
}
