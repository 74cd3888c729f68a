// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/member/prepare"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
)

// terminationLog is where the kubelet reads why a container ended.
const terminationLog = "/dev/termination-log"

func prepareCommand(log logr.Logger) *cobra.Command {
	var storeConfig store.Config
	options := prepare.Options{Name: os.Getenv(member.NameVariable), RestoredFile: member.RestoredFile, Clock: clock.RealClock{}}
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Decide how the member starts, and write its configuration file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if storeConfig.Provider != "" {
				options.Backups = prepare.StoredBackups{Config: storeConfig, Log: log}
			}
			err := prepare.Run(cmd.Context(), log, options)
			if refusal, ok := errors.AsType[*prepare.Refusal](err); ok {
				report(log, refusal)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&options.Name, "name", options.Name, "name of the member, by default $"+member.NameVariable)
	cmd.Flags().StringVar(&options.SharedDir, "shared-dir", member.SharedDir, "folder with the configuration that the members share")
	cmd.Flags().StringVar(&options.ConfigFile, "config-file", member.ConfigFile, "file to write")
	cmd.Flags().DurationVar(&options.Patience, "patience", time.Minute, "how long to wait for conditions that may change before failing, so that the kubelet restarts the container")
	storeConfig.AddFlags(cmd.Flags(), "")
	return cmd
}

// report writes why a member does not start to the termination log, from where the operator gets it.
func report(log logr.Logger, refusal *prepare.Refusal) {
	file, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = fmt.Fprint(file, refusal.Error())
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		log.Info("Could not write the termination message", "reason", err.Error())
	}
}
