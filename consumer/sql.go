package consumer

import "embed"

//go:embed schema/*.sql
var migrations embed.FS

//go:embed sql/*.sql
var statements embed.FS

// statement reads a file of sql/; a missing one is a mistake in this build.
func statement(name string) string {
	text, err := statements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

var (
	sqlTerm       = statement("settle_term")
	sqlLockSKUs   = statement("settle_lock_skus")
	sqlDecided    = statement("settle_decided")
	sqlActivities = statement("settle_activities")
	sqlLiveUnits  = statement("settle_live_units")
	sqlInsert     = statement("settle_insert")
	sqlStock      = statement("settle_stock")
	sqlPosition   = statement("settle_position")
	sqlSuspect    = statement("settle_suspect")

	sqlLockForMove = statement("move_lock_skus")
	sqlMove        = statement("move")

	sqlActivity     = statement("activity")
	sqlOrdersByID   = statement("orders_by_id")
	sqlOrdersOf     = statement("orders_of_buyer")
	sqlSnapshotRows = statement("snapshot_rows")
	sqlDeltaAsk     = statement("delta_ask")
	sqlDeltaApply   = statement("delta_apply")
)
