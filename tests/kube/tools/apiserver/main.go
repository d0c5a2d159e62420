// SPDX-License-Identifier: Apache-2.0

// The API server of the cluster that "make check-kube" judges the client and the broker by.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
