package waits

import "fmt"

// Wait describes what an entity without a next step waits for. The zero Wait is none.
type Wait struct {
	Kind     Kind
	sentence string
}

// For returns a wait of that kind. facts complete its sentence.
func For(kind Kind, facts ...any) Wait {
	return Wait{Kind: kind, sentence: fmt.Sprintf(kind.String(), facts...)}
}

// String returns the sentence, which follows "Waiting for".
func (w Wait) String() string { return w.sentence }

// MarshalText implements encoding.TextMarshaler: a query is answered with the sentence.
func (w Wait) MarshalText() ([]byte, error) { return []byte(w.sentence), nil }
