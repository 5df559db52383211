package main

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// picture is a plot and its size.
type picture struct {
	*plot.Plot
	width, height vg.Length
}

// write leaves a margin, because labels are wider than calculated.
func (p *picture) write(file string) error {
	const margin = 10 // points
	canvas := vgsvg.New(p.width, p.height)
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(f)
	return errors.Join(err, f.Close())
}

func newPicture(title, x, y string) *picture {
	p := &picture{Plot: plot.New(), width: 18 * vg.Centimeter, height: 9 * vg.Centimeter}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding, p.Legend.Padding = vg.Points(8), vg.Points(2)
	p.Add(plotter.NewGrid())
	return p
}

// progress draws how many machines had done a step after which time.
func progress(steps []step) (*picture, error) {
	p := newPicture("Machines that have finished the step", "seconds", "machines")
	p.X.Min, p.Y.Min = 0, 0
	for i, s := range steps {
		points := make(plotter.XYs, len(s.Done))
		for n, at := range s.Done {
			points[n] = plotter.XY{X: at.Seconds(), Y: float64(n + 1)}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = plotutil.Color(i), vg.Points(2)
		p.Add(line)
		p.Legend.Add(s.What, line)
	}
	return p, nil
}

// requests draws the requests to the API server about each machine, by verb and resource.
func requests(steps []step) (*picture, error) {
	return bars("Requests about each machine, events apart", "requests", steps, func(s step) map[string]float64 {
		out := map[string]float64{}
		for what, n := range s.Calls.By {
			out[what] = float64(n) / float64(len(s.Done))
		}
		return out
	})
}

// processes draws the processor time for each machine, by program.
func processes(steps []step) (*picture, error) {
	return bars("Processor time for each machine, including all other work", "milliseconds", steps,
		func(s step) map[string]float64 {
			out := map[string]float64{}
			for program, u := range s.Used {
				out[program] = 1000 * u.CPU.Seconds() / float64(len(s.Done))
			}
			return out
		})
}

// memory draws the resident memory of each program after a step.
func memory(steps []step) (*picture, error) {
	return bars("Resident memory after the step", "MiB", steps, func(s step) map[string]float64 {
		out := map[string]float64{}
		for program, u := range s.Used {
			out[program] = float64(u.Resident) / (1 << 20)
		}
		return out
	})
}

// legs draws when other requests about a machine were answered after the user's request.
func legs(steps []step) (*picture, error) {
	return bars("From the user's request until others about the machine were answered: median", "seconds", steps,
		func(s step) map[string]float64 {
			out := map[string]float64{}
			for _, l := range s.Legs {
				out[l.What] = l.Median.Seconds()
			}
			return out
		})
}

// histories draws what Temporal has recorded about each machine.
func histories(steps []step) (*picture, error) {
	return bars("In Temporal's histories for each machine", "", steps, func(s step) map[string]float64 {
		out, h := map[string]float64{}, s.Histories
		if h == nil {
			return out
		}
		for what, n := range map[string]int{
			"events": h.Events, "workflow tasks": h.Tasks, "failed workflow tasks": h.FailedTasks, "signals": h.Signals,
		} {
			out[what] = float64(n) / float64(max(1, h.Machines))
		}
		return out
	})
}

// bars draws a group of bars for each name that a step has a figure of, the smallest at the bottom. It returns nil if
// there are no figures.
func bars(title, unit string, steps []step, figures func(step) map[string]float64) (*picture, error) {
	sums := map[string]float64{}
	for _, s := range steps {
		for name, f := range figures(s) {
			sums[name] += f
		}
	}
	if len(sums) == 0 {
		return nil, nil
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[a], sums[b]), cmp.Compare(a, b))
	})
	const thick = 6 // points
	p := newPicture(title, unit, "")
	p.height = vg.Points(float64(thick*(len(steps)+1)*len(names)) + 120)
	p.X.Min = 0
	for i, s := range steps {
		values, found := make(plotter.Values, len(names)), figures(s)
		for n, name := range names {
			values[n] = found[name]
		}
		chart, err := plotter.NewBarChart(values, vg.Points(thick))
		if err != nil {
			return nil, err
		}
		chart.Horizontal, chart.Color, chart.LineStyle.Width = true, plotutil.Color(i), 0
		chart.Offset = vg.Points(thick * (float64(len(steps)-1)/2 - float64(i)))
		p.Add(chart)
		p.Legend.Add(s.What, chart)
	}
	p.NominalY(names...)
	return p, nil
}
