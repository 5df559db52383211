// Command bench measures what the settings in temporal-dev.yaml are worth: it starts the server once for each row of a table
// of settings and drives workflows shaped like the start of a virtual machine.
//
//	go build -o virtflow-temporal . && go run ./bench --server ./virtflow-temporal --config ../../../../temporal-dev.yaml
package main
