package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Of many that open a draft at once one makes the gate, and all are told that it is
// open: one epoch, soon.
func TestOpenedByManyAtOnce(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, backendEtcd)
	nodes := []*process{i.serve(), i.serve()}
	i.operate(nodes[0], http.MethodPut, "/admin/v1/activities/a1", `{"title":"t","skus":[{"sku":"s1","total":5,"limit_per_user":1,"price":1}]}`)
	start := make(chan struct{})
	var all sync.WaitGroup
	began := time.Now()
	for n := range 12 {
		all.Go(func() {
			<-start
			status, body, err := call(http.MethodPost, nodes[n%2].admin+"/admin/v1/activities/a1/open", "",
				map[string]string{"Authorization": "Bearer " + i.setting("SECKILL_ADMIN_TOKEN")})
			if err != nil || status != http.StatusOK {
				t.Errorf("open: %d %s %v", status, body, err)
			}
		})
	}
	close(start)
	all.Wait()
	within(t, "opening", time.Since(began), 10*time.Second)
	for n, node := range nodes {
		status, body, err := call(http.MethodPost, node.http+"/v1/activities/a1/orders", `{"sku":"s1"}`, map[string]string{"X-User-ID": fmt.Sprint("u", n)})
		if err != nil || status != http.StatusAccepted {
			t.Errorf("an order right after the opening: %d %s %v", status, body, err)
		}
	}
	i.audit(2)
}

// An operator's body is read to the letter, as a buyer's is.
func TestPutIsStrict(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, backendEtcd)
	p := i.serve()
	for name, body := range map[string]string{
		"name twice":        `{"title":"t","skus":[{"sku":"s1","total":10,"total":77,"limit_per_user":1,"price":5}]}`,
		"name in capitals":  `{"title":"t","skus":[{"sku":"s1","total":10,"Total":99,"limit_per_user":1,"price":5}]}`,
		"title in capitals": `{"TITLE":"evil","skus":[{"sku":"s1","total":10}]}`,
		"title with NUL":    `{"title":"a\u0000b","skus":[{"sku":"s1","total":10}]}`,
		"invalid UTF-8":     "{\"title\":\"a\xff\",\"skus\":[{\"sku\":\"s1\",\"total\":10}]}",
		"skus null":         `{"title":"t","skus":null}`,
		"total negative":    `{"title":"t","skus":[{"sku":"s1","total":-1}]}`,
		"limit 0":           `{"title":"t","skus":[{"sku":"s1","total":1,"limit_per_user":0}]}`,
		"SKU twice":         `{"title":"t","skus":[{"sku":"s1","total":1},{"sku":"s1","total":1}]}`,
		"trailing garbage":  `{"title":"t","skus":[{"sku":"s1","total":1}]}x`,
	} {
		status, answer, err := call(http.MethodPut, p.admin+"/admin/v1/activities/a1", body, map[string]string{"Authorization": "Bearer " + i.setting("SECKILL_ADMIN_TOKEN")})
		if err != nil || status != http.StatusBadRequest || !strings.Contains(string(answer), "invalid-request") || len(answer) > 2000 {
			t.Errorf("%s: %d %.200s %v, want 400 invalid-request", name, status, answer, err)
		}
	}
	for _, path := range []string{"/admin/v1/activities/%00", "/admin/v1/activities/a1", "/admin/v1/activities/%ff"} {
		status, answer, err := call(http.MethodGet, p.admin+path, "", map[string]string{"Authorization": "Bearer " + i.setting("SECKILL_ADMIN_TOKEN")})
		if err != nil || status != http.StatusNotFound {
			t.Errorf("GET %s: %d %s %v, want 404", path, status, answer, err)
		}
	}
	for _, path := range []string{"/v1/activities/%00", "/v1/activities//orders"} {
		status, answer, err := call(http.MethodGet, p.http+path, "", map[string]string{"X-User-ID": "u"})
		if err != nil || status != http.StatusNotFound || !strings.Contains(string(answer), "/problems/not-found") {
			t.Errorf("GET %s: %d %s %v, want 404", path, status, answer, err)
		}
	}
}
