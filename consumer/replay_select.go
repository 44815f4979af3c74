package consumer

import (
	"errors"
	"fmt"
	"time"

	"seckill/admission"
)

// Where a replay reads, and what it does with what it has read.
const (
	ReplayOrders = "orders" // the order log
	ReplayDead   = "dead"   // the dead-letter stream

	ReplayRepublish = "republish" // append again, and let the workers settle
	ReplayApply     = "apply"     // settle here, instead of the workers
)

// Selection says which orders a replay takes, from where, and how. Zero fields pick
// everything; Source and Mode are needed.
type Selection struct {
	Source string `json:"source"`
	Mode   string `json:"mode"`

	Activity  string    `json:"activity,omitempty"`
	SKU       string    `json:"sku,omitempty"`
	User      string    `json:"user,omitempty"`
	Order     string    `json:"order,omitempty"`
	Partition *int      `json:"partition,omitempty"`
	FromSeq   uint64    `json:"from_seq,omitempty"` // of the log message; both included
	ToSeq     uint64    `json:"to_seq,omitempty"`
	Since     time.Time `json:"since,omitzero"` // of the reservation
	Until     time.Time `json:"until,omitzero"` // before it
}

// Check says what is wrong with a selection for a log of so many partitions.
func (s Selection) Check(partitions int) error {
	switch {
	case s.Source != ReplayOrders && s.Source != ReplayDead:
		return fmt.Errorf("source %q: must be %s or %s", s.Source, ReplayOrders, ReplayDead)
	case s.Mode != ReplayRepublish && s.Mode != ReplayApply:
		return fmt.Errorf("mode %q: must be %s or %s", s.Mode, ReplayRepublish, ReplayApply)
	case s.Activity != "" && !admission.ValidName(s.Activity):
		return fmt.Errorf("activity %q: is not an id", s.Activity)
	case s.Order != "" && !admission.ValidID(s.Order):
		return fmt.Errorf("order %q: is not an order id (a UUID in lower case)", s.Order)
	case s.Partition != nil && (*s.Partition < 0 || *s.Partition >= partitions):
		return fmt.Errorf("partition %d: the log has 0 to %d", *s.Partition, partitions-1)
	case s.ToSeq != 0 && s.ToSeq < s.FromSeq:
		return fmt.Errorf("the range ends with message %d, before it begins with %d", s.ToSeq, s.FromSeq)
	case !s.Until.IsZero() && !s.Until.After(s.Since):
		return errors.New("until must be after since")
	}
	return nil
}

// wants says whether an order is selected.
func (s Selection) wants(activity string, o admission.Order) bool {
	return (s.Activity == "" || s.Activity == activity) && (s.SKU == "" || s.SKU == o.SKU) &&
		(s.User == "" || s.User == o.User) && (s.Order == "" || s.Order == o.ID) &&
		(s.Since.IsZero() || !o.At.Before(s.Since)) && (s.Until.IsZero() || o.At.Before(s.Until))
}

// wantsSeq says whether a message of the log is selected.
func (s Selection) wantsSeq(seq uint64) bool {
	return seq >= s.FromSeq && (s.ToSeq == 0 || seq <= s.ToSeq)
}

// picksOrders says whether orders are told apart, so that what has none is left out.
func (s Selection) picksOrders() bool {
	return s.Activity != "" || s.SKU != "" || s.User != "" || s.Order != "" || s.Partition != nil || !s.Since.IsZero() || !s.Until.IsZero()
}

// filter is the narrowest subject that has everything selected; empty: nothing is.
func (s Selection) filter(log *admission.Log) string {
	switch {
	case s.Activity != "" && s.Partition != nil && log.Partition(s.Activity) != *s.Partition:
		return ""
	case s.Activity != "":
		return log.Subject(s.Activity)
	case s.Partition != nil:
		return log.Filter(*s.Partition)
	}
	return log.All()
}

// partitions lists those that hold something selected.
func (s Selection) partitions(log *admission.Log) []int {
	if s.Activity != "" {
		return []int{log.Partition(s.Activity)}
	}
	if s.Partition != nil {
		return []int{*s.Partition}
	}
	all := make([]int, log.Partitions())
	for i := range all {
		all[i] = i
	}
	return all
}
