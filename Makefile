# Bare "make" prints the targets from their own comments.

GO ?= go
LOCK ?= etcd
ONESHOT ?=
PAYMENT ?=
UNPAID ?= 40
# Two packages at a time: each brings four servers of its own. make lint vets.
TESTFLAGS ?= -p 2 -timeout 15m -vet=off
BENCH ?= .
SEED ?= 1
SOAK ?= 10m
# In CI each benchmark runs once, so that it does not rot; by hand it is measured.
BENCHTIME ?= $(if $(CI),1x,1s)

GOFUMPT := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

oneshot := $(if $(filter-out 0 no false,$(ONESHOT)),--oneshot)
payment := $(if $(PAYMENT),--payment-window $(PAYMENT) --unpaid $(UNPAID))

.DEFAULT_GOAL := help
.PHONY: breaks console console-check reference help run test build bench results chaos machine lint fmt clean install install-test install-node bench-locks soak-locks

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: install build ## a whole sale on this machine, then stay up until Ctrl-C (ONESHOT=1: end after the report; LOCK=etcd|redis; PAYMENT=3s UNPAID=40: 40 % of the buyers do not pay in time)
	@exec bin/seckill-lab run $(oneshot) $(payment) --lock $(LOCK)

test: install-test build ## all tests with the race detector, on real servers
	$(GO) test -race $(TESTFLAGS) ./...

build: ## bin/seckill and bin/seckill-lab
	$(GO) build -o bin/ ./cmd/seckill ./cmd/seckill-lab

lint: ## gofumpt, go vet, staticcheck (an exception is a //lint:ignore with its reason)
	@unformatted=$$($(GO) run $(GOFUMPT) -l .) && \
		if [ -n "$$unformatted" ]; then echo "run make fmt; not formatted:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) -C lockprovider/bench vet ./...

bench: install-test ## benchmarks, once each if CI is set (BENCH=pattern, BENCHTIME=2s)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) $(TESTFLAGS) ./...

results: install-test build ## measure the project against the machine's ceiling (20 minutes, a quiet machine; writes cmd/seckill-lab/RESULTS.md)
	bin/seckill-lab results --report cmd/seckill-lab/RESULTS.md

chaos: install build ## 200 random kills under load on each lock backend (SEED=n: another schedule)
	bin/seckill-lab chaos --kills 200 --lock both --seed $(SEED) --report cmd/seckill-lab/CHAOS.md

machine: install-test ## 12,000 random steps of sales, each compared with a model and the laws (SEED=n: another sequence)
	$(GO) test -count 1 -v -run '^TestMachine$$' -timeout 0 ./consumer -rapid.checks 75 -rapid.seed $(SEED)

bench-locks: install build ## lockprovider beside other lock libraries, on the same servers (writes lockprovider/bench/RESULTS.md)
	cd lockprovider/bench && $(GO) run . -out RESULTS.md

soak-locks: install-test ## ten minutes of random faults on the leases of both stores (SEED=n: another schedule; SOAK=1h)
	LOCKTEST_SOAK=$(SOAK) LOCKTEST_SEED=$(SEED) $(GO) test -race -count 1 -v -run '^TestSoak$$' -timeout 0 ./lockprovider

reference: install build ## write deploy/guides/reference, the example configuration and the outputs that tests compare
	$(GO) test ./cmd/seckill -run '^(TestReference|TestExampleFile$$|TestOutput$$|TestConfigPrint)' -update

console: install-node ## build the operators' console again after a change under cmd/seckill/console/
	cd cmd/seckill/console && npm ci --no-audit --no-fund && npm run build

console-check: install-node ## build the console in another folder and compare it with the committed one, byte for byte
	@at=$$(mktemp -d) && trap 'rm -rf "$$at"' EXIT && cd cmd/seckill && \
		tar --exclude ./node_modules --exclude ./dist -C console -cf - . | tar -C "$$at" -xf - && \
		(cd "$$at" && npm ci --no-audit --no-fund && npm run build) && \
		diff -r console/dist "$$at/dist" >&2 && cmp testdata/axe.min.js "$$at/node_modules/axe-core/axe.min.js" || \
		{ echo "what is committed is not what cmd/seckill/console builds; run: make console" >&2; exit 1; }

fmt: ## format all Go files
	$(GO) run $(GOFUMPT) -w .

breaks: install-test build ## take each safeguard out and see its test turn red (a quarter of an hour; writes cmd/seckill-lab/BREAKS.md)
	bin/seckill-lab breaks --report cmd/seckill-lab/BREAKS.md

clean: ## delete bin/; the data of stopped stacks stays where it was put
	rm -rf bin

install:
	@deploy/stack/install.sh

install-node:
	@deploy/stack/install.sh --node

install-test:
	@deploy/stack/install.sh --race
