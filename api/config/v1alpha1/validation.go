// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate validates a configuration whose defaults are set. NewFeatureGate validates its feature gates.
func Validate(c *OperatorConfiguration) field.ErrorList {
	var errs field.ErrorList
	if c.Images.EtcdAgent == "" {
		errs = append(errs, field.Required(field.NewPath("images", "etcdAgent"), "name the image of the etcd-agent that was built with this operator"))
	}
	if hash := c.AgentAPI.MetricsTokenHash; hash != "" {
		if sum, err := hex.DecodeString(hash); err != nil || len(sum) != sha256.Size {
			errs = append(errs, field.Invalid(field.NewPath("agentAPI", "metricsTokenHash"), hash, "must be a SHA-256 in hex: printf %s \"$TOKEN\" | sha256sum"))
		}
	}
	for i, image := range c.Images.Allowed {
		if strings.Trim(image, "/") == "" || strings.ContainsAny(image, " *") {
			errs = append(errs, field.Invalid(field.NewPath("images", "allowed").Index(i), image, "must be an image, a repository, or the beginning of repositories with a slash at its end"))
		}
	}
	for i, store := range c.Backup.CopyStores {
		if path := field.NewPath("backup", "copyStores").Index(i); store.Provider == "" || store.Container == "" {
			errs = append(errs, field.Required(path, "name provider and container"))
		}
	}
	for i, claim := range c.Backup.LocalClaims {
		if namespace, name, ok := strings.Cut(claim, "/"); claim != "*" && (!ok || namespace == "" || name == "" || strings.Contains(namespace, "*") || strings.Contains(name, "/")) {
			errs = append(errs, field.Invalid(field.NewPath("backup", "localClaims").Index(i), claim, "must be NAMESPACE/NAME, NAMESPACE/* or *"))
		}
	}
	for i, source := range c.JoinSources {
		namespace, endpoint, ok := strings.Cut(source, "/")
		u, err := url.Parse(endpoint)
		if source != "*" && (!ok || len(validation.IsDNS1123Label(namespace)) > 0 || endpoint != "*" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "")) {
			errs = append(errs, field.Invalid(field.NewPath("joinSources").Index(i), source, "must be NAMESPACE/URL, such as shoot-a/https://etcd-0.example.com:2379, NAMESPACE/* or *"))
		}
	}
	compaction := field.NewPath("backup", "snapshotCompaction")
	errs = append(errs, validateThreshold(c.Backup.SnapshotCompaction.EventsThreshold, compaction.Child("eventsThreshold"))...)
	errs = append(errs, validateThreshold(c.Backup.SnapshotCompaction.TriggerFullSnapshotThreshold, compaction.Child("triggerFullSnapshotThreshold"))...)
	errs = append(errs, validateNamespaces(c.Namespaces, field.NewPath("namespaces"))...)
	errs = append(errs, validateClientConnection(c.ClientConnection, field.NewPath("clientConnection"))...)
	errs = append(errs, validateLeaderElection(c.LeaderElection, field.NewPath("leaderElection"))...)
	errs = append(errs, validateTLS(c.TLS, field.NewPath("tls"))...)
	server := field.NewPath("server")
	errs = append(errs, validateAddress(c.Server.MetricsBindAddress, server.Child("metricsBindAddress"))...)
	errs = append(errs, validateAddress(c.Server.HealthBindAddress, server.Child("healthBindAddress"))...)
	errs = append(errs, validateAddress(c.Server.WebhookBindAddress, server.Child("webhookBindAddress"))...)
	if c.Mode != ModeExecutor && c.Server.WebhookBindAddress != "0" {
		errs = append(errs, field.Invalid(server.Child("webhookBindAddress"), c.Server.WebhookBindAddress, "only mode Executor has a webhook"))
	}
	errs = append(errs, validateLoopback(c.Server.PprofBindAddress, server.Child("pprofBindAddress"))...)
	controllers := field.NewPath("controllers")
	errs = append(errs, validateController(c.Controllers.Etcd, controllers.Child("etcd"))...)
	errs = append(errs, validateController(c.Controllers.Rollout, controllers.Child("rollout"))...)
	errs = append(errs, validateController(c.Controllers.Task, controllers.Child("task"))...)
	errs = append(errs, validateEnum(c.Mode, field.NewPath("mode"), ModeOperator, ModeExecutor)...)
	errs = append(errs, validateEnum(c.ManagedByLabel, field.NewPath("managedByLabel"), v1alpha1.ManagedBy, v1alpha1.ManagedByDruid)...)
	errs = append(errs, validateEnum(c.PodUpdatePolicy, field.NewPath("podUpdatePolicy"), v1alpha1.InPlaceIfPossible, v1alpha1.RecreatePods)...)
	logging := field.NewPath("logging")
	errs = append(errs, validateEnum(c.Logging.Level, logging.Child("level"), LogLevelDebug, LogLevelInfo, LogLevelError)...)
	errs = append(errs, validateEnum(c.Logging.Format, logging.Child("format"), LogFormatJSON, LogFormatText)...)
	return errs
}

func validateThreshold(threshold int64, path *field.Path) field.ErrorList {
	if threshold < 1 {
		return field.ErrorList{field.Invalid(path, threshold, "must be greater than 0")}
	}
	return nil
}

func validateNamespaces(namespaces []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, namespace := range namespaces {
		for _, wrong := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(path.Index(i), namespace, wrong))
		}
		if slices.Index(namespaces, namespace) < i {
			errs = append(errs, field.Duplicate(path.Index(i), namespace))
		}
	}
	return errs
}

func validateClientConnection(c ClientConnection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.QPS < 0 {
		errs = append(errs, field.Invalid(path.Child("qps"), c.QPS, "must be greater than 0"))
	}
	if c.Burst < 0 {
		errs = append(errs, field.Invalid(path.Child("burst"), c.Burst, "must be greater than 0"))
	}
	return errs
}

func validateLeaderElection(c LeaderElection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.RetryPeriod.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("retryPeriod"), c.RetryPeriod.Duration.String(), "must be greater than 0"))
	}
	// A leader retries after up to 1.2 retry periods (client-go's jitter).
	if c.RenewDeadline.Duration <= c.RetryPeriod.Duration*6/5 {
		errs = append(errs, field.Invalid(path.Child("renewDeadline"), c.RenewDeadline.Duration.String(), "must be greater than 1.2 times retryPeriod"))
	}
	if c.LeaseDuration.Duration < c.RenewDeadline.Duration+StepTimeout {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"), c.LeaseDuration.Duration.String(), fmt.Sprintf(
			"must be at least renewDeadline plus %s: a leader must step down, and its last step must end, before another takes over", StepTimeout)))
	}
	return errs
}

func validateAddress(address string, path *field.Path) field.ErrorList {
	if address == "0" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return field.ErrorList{field.Invalid(path, address, `must be host:port, :port, or "0" to disable the endpoint`)}
	}
	return nil
}

func validateLoopback(address string, path *field.Path) field.ErrorList {
	if address == "0" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return field.ErrorList{field.Invalid(path, address, `must be a loopback address with a port, such as 127.0.0.1:6060, or "0" to disable the endpoint`)}
	}
	return nil
}

func validateController(c Controller, path *field.Path) field.ErrorList {
	if c.ConcurrentSyncs < 0 {
		return field.ErrorList{field.Invalid(path.Child("concurrentSyncs"), c.ConcurrentSyncs, "must be greater than 0")}
	}
	return nil
}

func validateEnum[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}
