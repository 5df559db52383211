package main

import (
	"fmt"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/deploy/dev/cluster"
	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
)

// backgroundVerbs are the commands that the program runs itself: the supervisor, and a node's first two processes.
func backgroundVerbs() []*cobra.Command {
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	return []*cobra.Command{
		{
			Use: "supervise", Hidden: true, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return cluster.Supervise(cmd.Context(), log) },
		},
		{
			Use: "node-init NODE", Hidden: true, Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				c, err := nodeConfig(args[0])
				if err != nil {
					return err
				}
				return node.Init(c, []string{c.Layout.Program(), "node-agent", args[0]})
			},
		},
		{
			Use: "node-agent NODE", Hidden: true, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				c, err := nodeConfig(args[0])
				if err != nil {
					return err
				}
				return node.RunAgent(cmd.Context(), c, log.With().Str("node", args[0]).Logger())
			},
		},
	}
}

func nodeConfig(name string) (node.Config, error) {
	n, err := layout.NodeNamed(name)
	if err != nil {
		return node.Config{}, err
	}
	state := os.Getenv("VIRTFLOW_STATE")
	if state == "" {
		return node.Config{}, fmt.Errorf("VIRTFLOW_STATE is not set: only the supervisor starts a node")
	}
	return node.Read(layout.Layout{State: state}, n)
}
