package main

import (
	"errors"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"seckill/deploy/stack/stacktest"
)

// What oversells is seen to oversell, by the same eyes that see that this system does not.
func TestGroupsOversellOrNot(t *testing.T) {
	t.Parallel()
	service, err := builtService()
	if err != nil {
		t.Fatal(err)
	}
	lab, _ := program()
	temp := t.TempDir()
	cmd := exec.Command(lab, "groups", "--seckill", service, "--clients", "300", "--units", "100", "--ramp", "1s", "--full", "2s", "--connections", "64")
	cmd.Env = append(cmd.Environ(), "TMPDIR="+temp)
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, &words)
	}
	rows := regexp.MustCompile(`(?m)^ +([A-F]) +(ramp|full) +([\d,]+) +\S+ +([\d,]+) +[\d,]+ +([\d,]+) +(-?[\d,]+) +([\d,]+) +[\d,]+ +\d+, `).FindAllStringSubmatch(string(out), -1)
	if len(rows) != 12 {
		t.Fatalf("%d rows, want 12:\n%s", len(rows), out)
	}
	for _, row := range rows {
		group, load, admitted, sold, oversold := row[1], row[2], row[4], row[5], row[6]
		switch {
		case strings.Contains("AB", group):
			if load == fullSale && (oversold == "0" || strings.HasPrefix(oversold, "-")) {
				t.Errorf("group %s oversold %s of %s at the full rate: this test shows nothing", group, oversold, sold)
			}
		case oversold != "0" || sold != admitted || load == rampSale && sold != "100":
			t.Errorf("group %s, %s: admitted %s, sold %s, oversold %s", group, load, admitted, sold, oversold)
		}
	}
	mustBeEmpty(t, temp)
}

// The judge counts what is in the tables, whoever wrote it.
func TestJudgeSeesWhatWasOversold(t *testing.T) {
	t.Parallel()
	servers, namespace := stacktest.Get(t), stacktest.Namespace(t)
	psql := exec.Command("psql", servers.PostgresURL(), "-Xqc", "create schema "+namespace+"; set search_path = "+namespace+";"+groupTables+
		`insert into skus values ('s', 10, 8), ('other', 5, 5);
		 insert into orders select gen_random_uuid(), 's', 'u' || n, 1, case n when 1 then 'rejected' when 2 then 'paid' else 'confirmed' end from generate_series(1, 6) n`)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for sale, want := range map[string][2]int64{"s": {5, 3}, "other": {0, 0}} {
		sold, oversold, err := judgeByPsql(t.Context(), servers.PostgresURL(), namespace, sale)
		if err != nil || sold != want[0] || oversold != want[1] {
			t.Errorf("%s: sold %d, oversold %d, %v; want %v", sale, sold, oversold, err, want)
		}
	}
}

func TestGroupVerdict(t *testing.T) {
	expected := []groupResult{{group: "A", oversold: 7}, {group: "B", oversold: 1}, {group: "C"}, {group: "F"}}
	if err := groupVerdict(expected); err != nil {
		t.Error(err)
	}
	var exit exitError
	if err := groupVerdict(append(expected, groupResult{group: "E", oversold: 1})); !errors.As(err, &exit) || exit.status != 3 {
		t.Errorf("group E oversold, and the verdict is %v", err)
	}
}

func TestGroupsRefuseOptionsThatCannotWork(t *testing.T) {
	good := groupOptions{groups: []string{"A"}, clients: 1, units: 1, ramp: time.Second, full: time.Second, connections: 1}
	for want, spoil := range map[string]func(*groupOptions){
		"use A to F":   func(o *groupOptions) { o.groups = []string{"G"} },
		"at least one": func(o *groupOptions) { o.groups = nil },
		"at least 1s":  func(o *groupOptions) { o.full = 0 },
		"choose 1 to":  func(o *groupOptions) { o.connections = 0 },
	} {
		o := good
		spoil(&o)
		if err := o.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	if err := writeGroups(io.Discard, nil); err != nil {
		t.Error(err)
	}
}
