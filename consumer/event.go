package consumer

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"seckill/admission"
)

const eventContentType = "application/cloudevents+json"

// Event is one change of status as the shop behind gets it: CloudEvents 1.0, JSON,
// structured mode. See deploy/guides/events.md.
type Event struct {
	SpecVersion string `json:"specversion"`
	// ID is that of the change and of the message: an event that comes again has it
	// again. It names the order too, so that numbers which a ledger that fell back
	// gives out again are not taken for those of before.
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"` // the order's id
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	// Sequence rises from change to change of one order; as text it sorts as the
	// number does.
	Sequence string     `json:"sequence"`
	Data     EventOrder `json:"data"`
}

// EventOrder is the order as its buyer sees it, and who that is.
type EventOrder struct {
	admission.OrderView
	User string `json:"user"`
}

// eventID is the id that the change's event has, however often it is published.
func (c change) eventID() string { return fmt.Sprintf("%d.%s.%s", c.id, c.ID, c.Status) }

func (c change) event(namespace string) Event {
	return Event{
		SpecVersion: "1.0", ID: c.eventID(),
		Source: "/" + namespace + "/activities/" + c.Activity, Type: "seckill.order." + string(c.Status),
		Subject: c.ID, Time: c.at.UTC(), DataContentType: "application/json",
		Sequence: fmt.Sprintf("%019d", c.id), Data: EventOrder{OrderView: c.View(), User: c.User},
	}
}

func (e Event) encode() ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	return data, nil
}
