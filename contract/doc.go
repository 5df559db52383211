// Package contract is what the processes of virtflow agree on: workflow IDs and types, task queues, signals, queries,
// updates, activity names, and the payloads of each. Everything here is plain data that travels through Temporal, so
// its JSON form is an interface: fields are added, never renamed or given another meaning.
//
// Nothing in a payload is ever secret, and nothing grows with the size of a user's object: identities, the few facts
// that a decision needs, and small deltas.
package contract
