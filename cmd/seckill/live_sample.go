package main

import (
	"reflect"
	"time"

	"seckill/admission"
)

var sampleType = reflect.TypeFor[liveSample]()

// liveSample is the installation at one moment. Parts that could not be read are null,
// and named in Errors.
type liveSample struct {
	At      time.Time `json:"at"`
	Seq     int64     `json:"seq"`
	TookMS  float64   `json:"took_ms"`
	EveryMS float64   `json:"every_ms" doc:"until the next sample, about"`

	Process     liveProcess     `json:"process"`
	Stores      []liveStore     `json:"stores"`
	Activities  []liveActivity  `json:"activities"`
	Funnel      *liveFunnel     `json:"funnel" doc:"of this process, a second; null without a sample before"`
	Latency     *liveLatencies  `json:"latency" doc:"of this process, over the last 10 s"`
	Log         *liveLog        `json:"log"`
	Partitions  []livePartition `json:"partitions"`
	Locks       []liveLease     `json:"locks"`
	LockBackend string          `json:"lock_backend"`
	Violations  int             `json:"violations" doc:"SKUs whose units do not add up in an exact moment; must be 0"`
	Errors      []liveError     `json:"errors"`

	// What one part reads for another.
	lockStore  *liveStore
	backlog    []int64                 // by partition
	deliveries map[string]LiveDelivery // by consumer
}

type liveProcess struct {
	Instance string   `json:"instance"`
	Version  string   `json:"version"`
	Roles    []string `json:"roles"`
}

type liveError struct {
	Part  string `json:"part" enum:"ledger,gate,log,locks,metrics"`
	Error string `json:"error"`
}

type liveStore struct {
	Store string  `json:"store" enum:"redis,nats,postgres,etcd"`
	Up    bool    `json:"up"`
	MS    float64 `json:"ms" doc:"time of one question"`
	Error string  `json:"error,omitempty"`
}

type liveActivity struct {
	Activity      string          `json:"activity"`
	Title         string          `json:"title"`
	State         admission.State `json:"state"`
	Gate          string          `json:"gate" enum:"open,paused,closed,rebuilding,untrusted,none"`
	StartsAt      *time.Time      `json:"starts_at"`
	EndsAt        *time.Time      `json:"ends_at"`
	PaymentWindow string          `json:"payment_window"`
	Epoch         int64           `json:"epoch"`
	GateEpoch     int64           `json:"gate_epoch"`
	Suspect       string          `json:"suspect,omitempty"`
	At            time.Time       `json:"at" doc:"closed activities are looked at every 10 s"`
	Exact         bool            `json:"exact" doc:"nothing moved between the stores while they were read"`
	SKUs          []liveSKU       `json:"skus"`
}

// liveSKU adds up: total = gate_stock + undecided + live + release_due + difference.
type liveSKU struct {
	SKU          string                     `json:"sku"`
	Total        int64                      `json:"total"`
	Stock        int64                      `json:"stock" doc:"of the ledger: total less live"`
	LimitPerUser int64                      `json:"limit_per_user"`
	Price        int64                      `json:"price"`
	GateStock    *int64                     `json:"gate_stock" doc:"null without a gate"`
	Undecided    int64                      `json:"undecided" doc:"reserved at the gate and not decided, and held"`
	Held         int64                      `json:"held" doc:"of the undecided ones"`
	Live         int64                      `json:"live"`
	ReleaseDue   int64                      `json:"release_due"`
	Difference   int64                      `json:"difference" doc:"motion, or in an exact moment a broken law"`
	Units        map[admission.Status]int64 `json:"units" doc:"of the ledger's orders, by status"`
}

// liveFunnel is per second. The keys are the labels of the metrics.
type liveFunnel struct {
	Seconds  float64            `json:"seconds" doc:"over which it was counted"`
	Asked    float64            `json:"asked"`
	Accepted float64            `json:"accepted"`
	Repeated float64            `json:"repeated"`
	Refused  map[string]float64 `json:"refused" doc:"by problem code"`
	Limits   map[string]float64 `json:"limits" doc:"by the limit that refused"`
	Settled  map[string]float64 `json:"settled" doc:"by the status that the ledger gave, or already"`
}

type liveLatencies struct {
	Admission liveLatency `json:"admission" doc:"from a buyer's request to its answer"`
	Append    liveLatency `json:"append" doc:"until the order log had a batch on disk"`
	Settle    liveLatency `json:"settle" doc:"one settlement transaction"`
	Order     liveLatency `json:"order" doc:"from the reservation to the settlement"`
}

// liveLatency has null percentiles without traffic.
type liveLatency struct {
	Count  uint64   `json:"count"`
	P50MS  *float64 `json:"p50_ms"`
	P90MS  *float64 `json:"p90_ms"`
	P99MS  *float64 `json:"p99_ms"`
	P999MS *float64 `json:"p999_ms"`
}

type liveLog struct {
	LastSeq         uint64  `json:"last_seq"`
	Messages        uint64  `json:"messages"`
	BacklogOrders   int64   `json:"backlog_orders"`
	UndecidedOrders int64   `json:"undecided_orders" doc:"held ones included"`
	OldestSeconds   float64 `json:"oldest_unsettled_seconds"`
	LiveDelivery
	DeadLetters   uint64  `json:"dead_letters"`
	ReleaseDue    int64   `json:"release_due"`
	EventsBacklog int64   `json:"events_backlog"`
	EventsSeconds float64 `json:"events_oldest_seconds"`
}

// LiveDelivery tells apart what users of JetStream often take for one another. It is
// exported because huma leaves out what a type embeds that is not.
type LiveDelivery struct {
	Unread      uint64 `json:"unread" doc:"messages that no worker has been given yet"`
	InFlight    int    `json:"in_flight" doc:"given to a worker and not acknowledged"`
	Redelivered int    `json:"redelivered" doc:"given more than once and not acknowledged"`
}

type livePartition struct {
	Partition  int        `json:"partition"`
	Term       int64      `json:"term"`
	Holder     string     `json:"holder" doc:"the newest settler as the ledger has it"`
	SettledSeq uint64     `json:"settled_seq"`
	Backlog    int64      `json:"backlog_orders"`
	Lease      *liveLease `json:"lease" doc:"null: nobody holds the partition"`
	LiveDelivery
}

type liveLease struct {
	Name    string    `json:"name"`
	Owner   string    `json:"owner"`
	Note    string    `json:"note,omitempty"`
	Token   uint64    `json:"token"`
	TTLMS   float64   `json:"ttl_ms" doc:"left, unless it is renewed"`
	Since   time.Time `json:"since"`
	Waiters int       `json:"waiters"`
}
