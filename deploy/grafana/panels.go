package main

//lint:file-ignore SA1019 the second model of dashboards needs a new Grafana; every one imports the first

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// query is an expression of PromQL and what its series are called.
type query struct{ expr, legend string }

// source is the Prometheus that the reader of a dashboard has chosen.
func source() common.DataSourceRef {
	kind, id := "prometheus", "${datasource}"
	return common.DataSourceRef{Type: &kind, Uid: &id}
}

// newBoard is an empty dashboard of the last quarter of an hour.
func newBoard(id, title, about string) *dashboard.DashboardBuilder {
	return dashboard.NewDashboardBuilder(title).Uid(id).Description(about).Tags([]string{"seckill"}).
		Time("now-15m", "now").Refresh("5s").Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"))
}

// figure is one number; it turns red at bad, if that is above 0.
func figure(title, about, unit string, bad float64, q query) *stat.PanelBuilder {
	p := stat.NewPanelBuilder().Title(title).Description(about).Unit(unit).Span(4).Height(4).
		Datasource(source()).WithTarget(target(q, "A")).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	if bad > 0 {
		p.Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps([]dashboard.Threshold{
			{Color: "green"}, {Color: "red", Value: &bad},
		}))
	}
	return p
}

// course is lines over time.
func course(title, about, unit string, queries ...query) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().Title(title).Description(about).Unit(unit).Min(0).Span(12).Height(8).
		Datasource(source()).FillOpacity(10).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true))
	for i, q := range queries {
		p.WithTarget(target(q, string(rune('A'+i))))
	}
	return p
}

func target(q query, ref string) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().RefId(ref).Expr(q.expr).LegendFormat(q.legend).Range()
}

// quantiles are the median, p99 and p99.9 of a histogram.
func quantiles(histogram string) []query {
	of := func(q string) string {
		return "histogram_quantile(" + q + ", sum by (le) (rate(" + histogram + "_bucket[$__rate_interval])))"
	}
	return []query{{of("0.5"), "p50"}, {of("0.99"), "p99"}, {of("0.999"), "p99.9"}}
}
