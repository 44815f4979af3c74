package main

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth  = 24 * vg.Centimeter
	plotHeight = 32 * vg.Centimeter
)

// series is one line of a panel.
type series struct {
	name   string
	color  color.Color
	points plotter.XYs
}

var (
	blue   = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	orange = color.RGBA{R: 0xd9, G: 0x6a, B: 0x0b, A: 0xff}
	green  = color.RGBA{R: 0x2c, G: 0x8a, B: 0x3c, A: 0xff}
	red    = color.RGBA{R: 0xb8, G: 0x22, B: 0x22, A: 0xff}
)

// writePlot draws requests, admissions, backlog and latency over the time of the load, as SVG.
func writePlot(path, title string, c *course) error {
	panels := coursePanels(title, c)
	canvas := vgsvg.New(plotWidth, plotHeight)
	area := draw.New(canvas)
	grid := make([][]*plot.Plot, len(panels))
	for i := range panels {
		grid[i] = panels[i : i+1]
	}
	tiles := draw.Tiles{
		Rows: len(panels), Cols: 1, PadX: 4 * vg.Millimeter, PadY: 6 * vg.Millimeter,
		PadTop: 4 * vg.Millimeter, PadBottom: 4 * vg.Millimeter, PadLeft: 4 * vg.Millimeter, PadRight: 8 * vg.Millimeter,
	}
	for i, row := range plot.Align(grid, tiles, area) {
		panels[i].Draw(row[0])
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("draw the plot: %w", err)
	}
	// Who does not have the font takes a similar one, not a serif.
	text := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,sans-serif;"))
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

// roundTicks are the library's ticks with labels for people.
type roundTicks struct{ plot.DefaultTicks }

func (t roundTicks) Ticks(low, high float64) []plot.Tick {
	ticks := t.DefaultTicks.Ticks(low, high)
	for i := range ticks {
		if !ticks[i].IsMinor() {
			ticks[i].Label = humanize.Commaf(ticks[i].Value)
		}
	}
	return ticks
}

// coursePanels is one plot a subject, all with the same time below.
func coursePanels(title string, c *course) []*plot.Plot {
	perSecond := func(n int64) float64 { return float64(n) / c.width.Seconds() }
	var admitted int64
	backlog := c.line(func(s span) float64 {
		admitted += s.admitted
		return float64(max(0, admitted-s.settled))
	})
	end := time.Duration(len(c.spans)) * c.width
	return []*plot.Plot{
		panel(title, "requests/s", end,
			series{"asked", blue, c.line(func(s span) float64 { return perSecond(s.asked) })},
			series{"answered", orange, c.line(func(s span) float64 { return perSecond(s.answered) })}),
		panel("", "admitted/s", end, series{"202", green, c.line(func(s span) float64 { return perSecond(s.admitted) })}),
		panel("", "backlog, orders", end, series{"admitted, not settled", red, backlog}),
		panel("", "latency, ms", end,
			series{"p99", orange, c.line(func(s span) float64 { return ms(s.p99) })},
			series{"p50", blue, c.line(func(s span) float64 { return ms(s.p50) })}),
	}
}

// line has a point in the middle of each span.
func (c *course) line(value func(span) float64) plotter.XYs {
	points := make(plotter.XYs, len(c.spans))
	for n, s := range c.spans {
		points[n].X = (float64(n) + 0.5) * c.width.Seconds()
		points[n].Y = value(s)
	}
	return points
}

func panel(title, unit string, end time.Duration, lines ...series) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = "seconds since the first request"
	p.Y.Label.Text = unit
	p.X.Min, p.X.Max, p.Y.Min = 0, end.Seconds(), 0
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = font.Variant("Sans")
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = roundTicks{}, roundTicks{}
	p.Legend.Top, p.Legend.Padding = true, vg.Millimeter
	p.Legend.YOffs = vg.Centimeter / 4
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{Y: 0xdd}, color.Gray{Y: 0xee}
	p.Add(grid)
	top := 0.0
	for _, s := range lines {
		line := &plotter.Line{XYs: s.points, LineStyle: plotter.DefaultLineStyle}
		line.Color, line.Width = s.color, vg.Points(1.2)
		p.Add(line)
		p.Legend.Add(s.name+"   ", line)
		for _, point := range s.points {
			top = max(top, point.Y)
		}
	}
	p.Y.Max = max(1, top*1.15)
	return p
}
