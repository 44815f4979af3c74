package consumer_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

// A page of a large ledger is read from the index, wherever it begins: no page sorts or scans all orders.
func TestPagesOfOrdersComeFromTheIndex(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1_000_000, 1))
	conn, err := s.pool.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	exec := func(sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	exec(`insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, created_at, epoch, partition, log_seq, term)
		select gen_random_uuid(), 'a1', 's1', 'u' || n, 1, 100, 'confirmed', now(), 1, 0, n, 1 from generate_series(1, 50000) n`)
	// As many are to be paid, of which a hundred are overdue.
	exec(`insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, created_at, pay_before, epoch, partition, log_seq, term)
		select gen_random_uuid(), 'a1', 's1', 'v' || n, 1, 100, 'pending_payment', now(), now() + (n - 100) * interval '1 second', 1, 0, n, 1 from generate_series(1, 50000) n`)
	exec(`analyze orders`)
	// What a connection that has run a statement a few times plans with.
	exec(`set plan_cache_mode = force_generic_plan`)
	for name, execute := range map[string]string{
		"audit_charged":      `audit_charged('a1', '80000000-0000-7000-8000-000000000000', 1000)`,
		"expiry_next":        `expiry_next`,
		"expiry_due":         `expiry_due(512)`,
		"orders_of_activity": `orders_of_activity('a1', '', '', '80000000-0000-7000-8000-000000000000', 100)`,
		// These sort what a few pages from the index have.
		"orders_search":       `orders_search('a1', '{confirmed,paid}', '80000000-0000-7000-8000-000000000000', 100)`,
		"orders_search_buyer": `orders_search_buyer('{a1}', 'u7', '{confirmed}', '80000000-0000-7000-8000-000000000000', 100)`,
	} {
		text, err := os.ReadFile("sql/" + name + ".sql")
		must(t, err)
		exec(`prepare ` + name + ` as ` + string(text))
		rows, err := conn.Query(t.Context(), `explain execute `+execute)
		must(t, err)
		var plan []string
		for rows.Next() {
			var line string
			must(t, rows.Scan(&line))
			plan = append(plan, line)
		}
		must(t, rows.Err())
		if all := strings.Join(plan, "\n"); strings.Contains(all, "Sort") && !strings.Contains(name, "search") || strings.Contains(all, "Seq Scan") || !strings.Contains(all, reads(name)) {
			t.Errorf("%s does not read its page from the index:\n%s", name, all)
		}
	}
}

// reads is what the plan of a page has to say: where in the index it begins, or which index has the order.
func reads(page string) string {
	if page == "expiry_next" {
		return "using orders_pay_before"
	}
	return "Index Cond"
}

// What is asked again and again during a sale looks into an index, and does not read all
// orders of a grown sale: neither by a plan kept from the sale's first second, nor by one that
// believes old statistics, nor before the first ones. Red if a statement says "id = any(...)",
// or asks all orders at once which units are due.
func TestSaleIsReadByItsIndexes(t *testing.T) {
	t.Parallel()
	var users, ids []string
	for i := range 512 {
		users, ids = append(users, fmt.Sprint("u", 50_000+i)), append(ids, admission.NewID())
	}
	list := func(values []string) string { return `'{` + strings.Join(values, ",") + `}'` }
	for _, c := range []struct{ statement, args, index string }{
		{"settle_live_units", list(slices.Repeat([]string{"a1"}, 512)) + "," + list(slices.Repeat([]string{"s1"}, 512)) + "," + list(users), "orders_buyer"},
		{"settle_decided", list(ids), "orders_pkey"},
		{"orders_by_id", list(ids), "orders_pkey"},
		{"audit_rows", list(ids), "orders_pkey"},
		{"outbox_page", "1000", "orders_pkey"},
		{"release_lives", "", "orders_release"},
		{"release_due", "''", "orders_release"},
		{"moment_due", "'a1', 100", "orders_release"},
		{"expiry_due", "100", "orders_pay_before"},
		{"expiry_next", "", "orders_pay_before"},
		{"audit_held", "''", "orders_held"},
	} {
		for _, analyzed := range []bool{false, true} {
			t.Run(fmt.Sprint(c.statement, " analyzed=", analyzed), func(t *testing.T) {
				t.Parallel()
				plan := planOfAGrownSale(t, c.statement, c.args, analyzed)
				if !strings.Contains(plan, c.index) || strings.Contains(plan, "Seq Scan on orders") {
					t.Errorf("%s does not look into %s:\n%s", c.statement, c.index, plan)
				}
			})
		}
	}
}

// planOfAGrownSale is the plan that a connection has for a statement which it has executed
// since the sale had 300 orders, once it has 50,000. The statistics are of before, or there are none.
func planOfAGrownSale(t *testing.T, name, args string, analyzed bool) string {
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1_000_000, 1))
	conn, err := s.pool.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	exec := func(sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	fill := func(from, to int) {
		exec(fmt.Sprintf(`insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, created_at, epoch, partition, log_seq, term)
			select gen_random_uuid(), 'a1', 's1', 'u' || n, 1, 100, 'confirmed', now(), 1, 0, n, 1 from generate_series(%d, %d) n`, from, to))
	}
	text, err := os.ReadFile("sql/" + name + ".sql")
	must(t, err)
	exec(`alter table orders set (autovacuum_enabled = false)`)
	fill(1, 300)
	if analyzed { // else only what the pool says keeps a plan for ten pages from being kept
		exec(`set plan_cache_mode = auto`)
		exec(`analyze orders`)
	}
	exec(`prepare statement as ` + string(text))
	call := `execute statement`
	if args != "" {
		call += `(` + args + `)`
	}
	for range 8 { // as often as it takes to keep a plan
		exec(call)
	}
	fill(301, 50_000)
	rows, err := conn.Query(t.Context(), `explain `+call)
	must(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	return strings.Join(plan, "\n")
}
