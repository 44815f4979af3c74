package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"seckill/deploy/stack/stacktest"
)

// exec changes the ledger as a test needs it.
func (i *installed) exec(sql string) {
	i.t.Helper()
	conn, err := pgx.Connect(i.t.Context(), stacktest.Get(i.t).PostgresURL())
	must(i.t, err)
	defer func() { _ = conn.Close(i.t.Context()) }()
	_, err = conn.Exec(i.t.Context(), `set search_path to `+pgx.Identifier{i.namespace}.Sanitize()+"; "+sql)
	must(i.t, err)
}

// Held orders are listed, shown, replayed and dropped by commands.
func TestDeadLettersByCommands(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	file := write(t, springFile)
	i.must(exitDone, "activity", "apply", "-f", file, "--yes")
	i.must(exitDone, "activity", "open", "spring", "--yes")
	i.exec(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'a rule of the shop'; end $$`)
	i.exec(`create trigger poison before insert on orders for each row when (new.status <> 'held' and new.user_id like 'poison%') execute function refuse()`)
	ids := map[string]string{}
	for _, user := range []string{"poison-1", "poison-2", "bob"} {
		var o placed
		i.answer(&o, "order", "place", "spring", "s1", "--user", user, "--yes")
		ids[user] = o.ID
	}
	i.serve()
	var list struct{ Letters []letterLine }
	eventually(t, "two dead letters", func() (bool, string) {
		i.answer(&list, "dlq", "list", "--activity", "spring")
		return len(list.Letters) == 2, i.must(exitDone, "dlq", "list").stdout
	})
	if l := list.Letters[0]; l.Status != "held" || l.Deliveries == 0 || l.Order == nil || !strings.HasPrefix(l.Order.User, "poison") {
		t.Errorf("listed: %+v", l)
	}
	i.answer(&list, "dlq", "list", "--limit", "1")
	if len(list.Letters) != 1 {
		t.Errorf("%d letters, want no more than 1", len(list.Letters))
	}
	var l letterLine
	i.answer(&l, "dlq", "show", ids["poison-1"])
	if l.ID != ids["poison-1"] || !strings.Contains(l.Detail, "a rule of the shop") {
		t.Errorf("shown: %+v", l)
	}
	i.must(exitFailed, "dlq", "show", ids["bob"])

	if got := i.must(exitUsage, "dlq", "drop", ids["poison-1"], "--yes"); !strings.Contains(got.stderr, "--reason") {
		t.Errorf("a drop without reason: %s", got.stderr)
	}
	i.must(exitUsage, "dlq", "replay", ids["poison-1"]) // nobody to ask
	got := i.must(exitFailed, "dlq", "replay", ids["poison-1"], "nonsense", "letter-99", "--yes", "--actor", "ann", "--output", "json")
	if !strings.Contains(got.stdout, `"confirmed"`) || strings.Count(got.stderr, "\n") != 2 {
		t.Errorf("replayed: %s%s", got.stdout, got.stderr)
	}
	got = i.must(exitDone, "dlq", "drop", ids["poison-2"], "--yes", "--actor", "ann", "--reason", "refunded")
	if !strings.Contains(got.stdout, "dropped") {
		t.Errorf("dropped: %s%s", got.stdout, got.stderr)
	}
	i.answer(&list, "dlq", "list")
	if len(list.Letters) != 0 {
		t.Errorf("letters of decided orders: %+v", list.Letters)
	}
	i.must(exitDone, "audit", "--wait", "30s")
	log := i.query(`select string_agg(actor || '|' || action || '|' || reason, ';' order by id) from activity_log where action like '%dead letter'`)
	if log != "ann|replay dead letter|;ann|drop dead letter|refunded" {
		t.Errorf("activity log: %s", log)
	}
}
