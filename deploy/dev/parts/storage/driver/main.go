// Command driver is the development cluster's CSI driver. On a node it serves the kubelet, which finds it by its
// registration; beside the control plane it serves the controllers that make, grow and copy volumes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/virtflow/virtflow/deploy/dev/parts/storage/csi"
)

func main() {
	socket := flag.String("socket", "", "the Unix socket to serve on")
	folder := flag.String("folder", "", "the folder of the volumes, which every node has")
	node := flag.String("node", "", "the node's name; without it, nothing is mounted")
	registry := flag.String("registry", "", "the kubelet's folder for plugins' registrations, on a node")
	flag.Parse()
	if err := serve(*socket, *folder, *node, *registry); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(socket, folder, node, registry string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if socket == "" || folder == "" || (node == "") != (registry == "") {
		return fmt.Errorf("--socket and --folder are needed, and on a node --node and --registry")
	}
	ended := make(chan error, 2)
	go func() { ended <- csi.New(folder, node).Serve(ctx, socket) }()
	if node != "" {
		go func() { ended <- csi.Register(ctx, registry, socket) }()
	}
	return <-ended
}
