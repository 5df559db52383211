package contract

import "cmp"

// The workflow that keeps Temporal's side of the fencing token.
const (
	WorkflowFencingToken = "FencingToken"
	FencingTokenID       = "crdwatch/fencing-token"
	// QueryFencingToken answers the FencingToken, UpdateAdvance moves it from one value to another.
	QueryFencingToken = "token"
	UpdateAdvance     = "advance"
)

// FencingToken is a value that only grows. crdwatch's leader keeps it in Temporal and in Kubernetes: the side where it
// is smaller is an older copy, put back from a backup or emptied. Then a new epoch begins, and all observations are
// sent again with that epoch. An observation with a newer epoch than its entity's is believed whatever its
// resourceVersion, and the entity reads the API server before it acts: its state may be old, or resourceVersions have
// run backwards.
type FencingToken struct {
	Epoch   int64 `json:"epoch"`
	Counter int64 `json:"counter"`
}

// Compare orders tokens: by epoch, then by counter.
func (t FencingToken) Compare(other FencingToken) int {
	return cmp.Or(cmp.Compare(t.Epoch, other.Epoch), cmp.Compare(t.Counter, other.Counter))
}

// Next returns the token that follows while neither side is older. The zero token is that of a side without one: the
// first epoch follows.
func (t FencingToken) Next() FencingToken {
	return FencingToken{Epoch: max(t.Epoch, 1), Counter: t.Counter + 1}
}

// FencingInput starts the workflow of the fencing token, or continues it.
type FencingInput struct {
	Token FencingToken `json:"token"`
}

// AdvanceInput moves the fencing token To a greater value, if it is still at From.
type AdvanceInput struct {
	From FencingToken `json:"from"`
	To   FencingToken `json:"to"`
}

// Observation is sent by crdwatch to an entity.
type Observation interface {
	// At returns the observation as it is sent in an epoch.
	At(epoch int64) Observation
}

// Repeatable is an Observation of an object to the entity that writes its status. The entity's own writes are not sent
// to it: it knows them, unless Temporal has lost that.
type Repeatable interface {
	Observation
	// SentAgain returns the observation as it is sent where Temporal may have lost one that it accepted shortly before.
	SentAgain() Observation
}

// SentAgain implements Repeatable.
func (o VMObservation) SentAgain() Observation { o.Again = true; return o }

// SentAgain implements Repeatable.
func (o VMIObservation) SentAgain() Observation { o.Again = true; return o }

// At implements Observation.
func (o VMObservation) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o VMIObservation) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o PodObservation) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o NodeObservation) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o NodeState) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o EvacueesObservation) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o ReplicaSetObservation) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o ReplicasObservation) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o MigrationObservation) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o QueuedMigration) At(epoch int64) Observation { o.Epoch = epoch; return o }

// At implements Observation.
func (o OutdatedObservation) At(epoch int64) Observation { o.Epoch = epoch; return o }
