// SPDX-License-Identifier: Apache-2.0

// Enforces the NetworkPolicies of a cluster's node: kube-router's controller of them and nothing else of it.
// Usage: enforcer KUBECONFIG NODE SERVICES, in the node's network namespace, with iptables and ipset on PATH.
package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/cloudnativelabs/kube-router/v2/pkg/svcip"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "enforcer:", err)
		os.Exit(1)
	}
	return value
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: enforcer KUBECONFIG NODE SERVICES")
		os.Exit(2)
	}
	config := options.NewKubeRouterConfig()
	config.HostnameOverride = os.Args[2]
	config.ClusterIPCIDRs = []string{os.Args[3]}
	config.EnableIPv4, config.EnableIPv6 = true, false
	config.IPTablesSyncPeriod = 2 * time.Minute
	config.NodePortRange = "30000-32767"
	client := must(kubernetes.NewForConfig(must(clientcmd.BuildConfigFromFlags("", os.Args[1]))))
	ranges := must(svcip.NewValidator(svcip.Config{ClusterIPCIDRs: config.ClusterIPCIDRs, EnableIPv4: true}))

	stop := make(chan struct{})
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	spaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(stop)
	factory.WaitForCacheSync(stop)

	var mutex sync.Mutex
	tables, sets, err := netpol.NewIPTablesHandlers(config)
	must(0, err)
	controller := must(netpol.NewNetworkPolicyController(client, config, pods, policies, spaces, &mutex, nil, tables, sets, ranges))
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: controller.PodEventHandler, spaces: controller.NamespaceEventHandler, policies: controller.NetworkPolicyEventHandler} {
		must(informer.AddEventHandler(handler))
	}
	health := make(chan *healthcheck.ControllerHeartbeat, 10)
	go func() {
		for range health {
		}
	}()
	var group sync.WaitGroup
	group.Add(1)
	controller.Run(health, stop, &group)
}
