package admission

import (
	"encoding/base64"

	"github.com/google/uuid"
)

// GateID is how the gate spells an order's id: 22 characters instead of 36, which are
// kept three times an order, and a fourth time under a key. What is no id stays as it is.
func GateID(id string) string {
	u, err := uuid.Parse(id)
	if err != nil {
		return id
	}
	return base64.RawURLEncoding.EncodeToString(u[:])
}

// FromGateID is the id that GateID spelled.
func FromGateID(spelled string) string {
	var u uuid.UUID
	if base64.RawURLEncoding.DecodedLen(len(spelled)) != len(u) {
		return spelled
	}
	if _, err := base64.RawURLEncoding.Decode(u[:], []byte(spelled)); err != nil {
		return spelled
	}
	return u.String()
}

func fromGateIDs(spelled []string) []string {
	for i := range spelled {
		spelled[i] = FromGateID(spelled[i])
	}
	return spelled
}
