package admission

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
)

// A notice tells the nodes that orders have been decided or have changed: 16 bytes an
// order, one core message a settled batch. It is only a hint. A lost one costs those
// who wait a second, because they ask by themselves as often.

func (l *Log) noticeSubject() string { return l.config.Namespace + ".notices" }

// Notify tells the nodes that the orders have been decided or have changed in the
// ledger. Call it when the change is committed and the gate was told. Best effort.
func (l *Log) Notify(ids []string) {
	data := make([]byte, 0, 16*len(ids))
	for _, id := range ids {
		if u, err := uuid.Parse(id); err == nil {
			data = append(data, u[:]...)
		}
	}
	if len(data) > 0 {
		_ = l.js.Conn().Publish(l.noticeSubject(), data)
	}
}

// notices calls heard with the orders of each notice until the function that it
// returns is called. heard is called by one goroutine, of the connection.
func (l *Log) notices(heard func(ids []string)) (stop func(), err error) {
	s, err := l.js.Conn().Subscribe(l.noticeSubject(), func(m *nats.Msg) { heard(readNotice(m.Data)) })
	if err != nil {
		return nil, fmt.Errorf("listen for decided orders: %w", err)
	}
	return func() { _ = s.Unsubscribe() }, nil // a connection that is closed has none
}

func readNotice(data []byte) []string {
	ids := make([]string, 0, len(data)/16)
	for ; len(data) >= 16; data = data[16:] {
		ids = append(ids, uuid.UUID(data[:16]).String())
	}
	return ids
}
