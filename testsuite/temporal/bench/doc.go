// Command bench measures the effect of the settings in temporal-dev.yaml: it starts the server once for each row of a
// table of settings and drives workflows shaped like the start of a virtual machine.
//
//	go run -C testsuite/temporal ./bench --server "$(go run -C deploy/dev . build temporal)/virtflow-temporal"
package main
