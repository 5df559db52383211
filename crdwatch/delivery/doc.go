// Package delivery brings observations to workflows. What waits is in memory; the next leader sends everything again.
//
//	delivery.go   an observation on its way
//	policy.go     which deliveries wait, and for what: a table by kind and cause
//	outbox.go     one serial queue per workflow: the newest observation of an object, retried until delivered
//	fairqueue.go  the next workflow: changes before resyncs, namespaces in turn
//	flows.go      flow control: many requests at once wait here, not in Temporal
//	throttle.go   how fast unchanged objects are sent
//	window.go     how many of those, or of a flow, are sent before control workers have processed them
//	redeliver.go  what Temporal may have lost is sent again
//	recent.go     what was sent in the last minutes
//	temporal.go   signals, and the classes of their errors
//	metrics.go    metrics of deliveries
package delivery
