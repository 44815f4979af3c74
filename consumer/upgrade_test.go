package consumer_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of goose
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/redis/go-redis/v9"

	"seckill/admission"
	"seckill/consumer"
)

// former reads what the former release wrote, word for word save for what each
// installation has of its own. A release that writes something else adds a file; it
// does not change one before the release after it.
func former(t *testing.T, name string, own map[string]string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "former", name))
	must(t, err)
	for word, value := range own {
		text = []byte(strings.ReplaceAll(string(text), word, value))
	}
	return []byte(strings.TrimSpace(string(text)))
}

func formerOrder(number int, user string, quantity int64, key string) admission.Order {
	id := fmt.Sprintf("01a22e77-3dd6-7000-8000-%012d", number)
	return admission.Order{ID: id, User: user, SKU: "s1", Quantity: quantity, Key: key}
}

// A message of the former release is settled as one of this release, and so is one in
// which a later release says more; one of a version that is not known is kept as a
// dead letter. A dead letter of the former release can be decided.
func TestMessagesOfTheFormerRelease(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 2))
	epoch := s.epoch()
	own := map[string]string{"EPOCH": strconv.FormatInt(epoch, 10)}
	for _, o := range []admission.Order{formerOrder(1, "ann", 1, "k-1"), formerOrder(2, "bob", 2, ""), formerOrder(3, "cid", 1, ""), formerOrder(4, "dan", 1, "")} {
		s.reserve(epoch, o)
	}
	publish := func(subject string, data []byte) {
		t.Helper()
		_, err := s.log.JetStream().Publish(t.Context(), subject, data)
		must(t, err)
	}
	s.startWorker(workerOptions{})
	for _, name := range []string{"message.json", "message_newer.json"} {
		publish(s.log.Subject("a1"), former(t, name, own))
	}
	publish(s.log.Subject("a1"), []byte(`{"v":2,"batch":"x","epoch":1,"activity":"a1","orders":[]}`))
	s.exec(`insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, created_at, epoch, partition, log_seq, term)
		values ($1, 'a1', 's1', 'dan', 1, 100, 'held', now(), $2, $3, 3, 1)`, formerOrder(4, "", 0, "").ID, epoch, s.log.Partition("a1"))
	publish(s.namespace+".dead.a1", former(t, "letter.json", own))
	eventually(t, "all are decided, two letters wait", func() (bool, string) {
		n, letters := queryInt(t, s, `select count(*) from orders where status = 'confirmed'`), len(s.letters())
		return n == 3 && letters == 2, fmt.Sprintf("%d confirmed, %d letters", n, letters)
	})
	got, err := s.desk().Replay(t.Context(), formerOrder(4, "", 0, "").ID)
	if err != nil || got.Status != admission.Confirmed {
		t.Errorf("the former release's dead letter: %+v, %v", got, err)
	}
	for _, l := range s.letters() {
		if l.Order != nil || !strings.Contains(l.Detail, "version 2 is not known") {
			t.Errorf("unexpected letter: %+v", l)
		}
		_, err := s.desk().Drop(t.Context(), l.ID())
		must(t, err)
	}
	s.wantClean(5)
}

// A gate that the scripts of the former release have filled is read by those of this
// one: who has an order is told, who has none buys, the stock goes on where it was.
func TestGateOfTheFormerRelease(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 4, 2))
	s.startWorker(workerOptions{})
	wantCount(t, s.crowd([]ask{one("a1", "ann")}), map[string]int{"202": 1})
	s.rest("a1")
	s.exec(`update orders set id = $1, key = 'k-1'`, formerOrder(1, "", 0, "").ID)
	server, err := s.redis.HGet(t.Context(), s.gateKey("a1", "gate"), "server").Result()
	must(t, err)
	var gate struct {
		Hashes map[string]map[string]string
	}
	must(t, json.Unmarshal(former(t, "gate.json", map[string]string{"EPOCH": strconv.FormatInt(s.epoch(), 10), "SERVER": server}), &gate))
	for _, what := range []string{"gate", "stock", "orders", "buyers", "keys", "pending"} {
		must(t, s.redis.Del(t.Context(), s.gateKey("a1", what)).Err())
	}
	_, err = s.redis.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for what, fields := range gate.Hashes {
			p.HSet(t.Context(), s.gateKey("a1", what), fields)
		}
		return nil
	})
	must(t, err)
	again := one("a1", "ann")
	again.key = "k-1"
	if got := s.post(again); got.status != 200 || got.order != formerOrder(1, "", 0, "").ID {
		t.Errorf("her order, asked for again: %+v", got)
	}
	wantCount(t, s.crowd([]ask{one("a1", "bob"), one("a1", "cid"), one("a1", "dan"), one("a1", "eve")}), map[string]int{"202": 3, "409 sold-out": 1})
	s.rest("a1")
	if left := s.stock(); left != 0 {
		t.Errorf("%d units left at the gate", left)
	}
}

// migrateTo brings a schema of its own to a version, with the files of this folder.
func migrateTo(t *testing.T, s *sale, version int64) {
	t.Helper()
	db, err := sql.Open("pgx", s.servers.PostgresURL())
	must(t, err)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // the search path is a connection's
	_, err = db.ExecContext(t.Context(), "create schema "+s.namespace+"; set search_path to "+s.namespace)
	must(t, err)
	store, err := database.NewStore(database.DialectPostgres, s.namespace+".goose_db_version")
	must(t, err)
	p, err := goose.NewProvider("", db, os.DirFS("schema"), goose.WithStore(store), goose.WithDisableGlobalRegistry(true))
	must(t, err)
	_, err = p.UpTo(t.Context(), version)
	must(t, err)
}

// A ledger of the former release, with orders in it, is brought to this one, and sells
// on. An event that waited is published.
func TestSchemaOfTheFormerRelease(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	version := queryInt(t, s, `select max(version_id) from goose_db_version`)
	s.exec(`drop schema ` + s.namespace + ` cascade`)
	migrateTo(t, s, version-1)
	s.exec(`insert into activities (id, state, epoch, last_epoch) values ('a1', 'open', 1, 1)`)
	s.exec(`insert into skus (activity_id, sku_id, total, stock, limit_per_user, price) values ('a1', 's1', 5, 4, 1, 100)`)
	s.exec(`insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, created_at, epoch, partition, log_seq, term)
		values ($1, 'a1', 's1', 'ann', 1, 100, 'confirmed', now(), 1, $2, 0, 1)`, formerOrder(1, "", 0, "").ID, s.log.Partition("a1"))
	n, err := consumer.Migrate(t.Context(), s.pool, s.namespace)
	if err != nil || n != 1 {
		t.Fatalf("%d migrations, %v; want the newest one", n, err)
	}
	must(t, s.ledger.Join(t.Context(), "etcd", partitions))
	_, err = s.rebuild().Run(t.Context(), "a1")
	must(t, err)
	s.startWorker(workerOptions{})
	wantCount(t, s.crowd([]ask{one("a1", "ann"), one("a1", "bob")}), map[string]int{"200": 1, "202": 1})
	s.wantClean(2)
	s.publishAll(s.publisher())
	if got := s.told(); len(got) != 2 || len(got[formerOrder(1, "", 0, "").ID]) != 1 {
		t.Errorf("events of %d orders, want of both, with one that waited through the upgrade", len(got))
	}
}

// The next release has brought the schema to its version, by adding: this one starts
// on it, sells and settles, and takes nothing back.
func TestSchemaOfTheNextRelease(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.exec(`alter table orders add column gift boolean not null default false, add column note text`)
	s.exec(`alter table skus add column colour text`)
	s.exec(`create table gifts (id uuid primary key)`)
	s.exec(`insert into goose_db_version (version_id, is_applied) values (9999, true)`)
	if n, err := consumer.Migrate(t.Context(), s.pool, s.namespace); err != nil || n != 0 {
		t.Fatalf("%d migrations, %v", n, err)
	}
	must(t, s.ledger.Join(t.Context(), "etcd", partitions))
	s.open("a1", units("s1", 5, 1))
	s.startWorker(workerOptions{})
	wantCount(t, s.crowd([]ask{one("a1", "ann"), one("a1", "bob")}), map[string]int{"202": 2})
	s.wantClean(2)
	if n := queryInt(t, s, `select count(*) from goose_db_version where version_id = 9999`); n != 1 {
		t.Error("the next release's version is gone")
	}
}
