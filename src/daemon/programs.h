/* SPDX-License-Identifier: Apache-2.0 */
/* The programs the daemon starts, and the image that comes with it, opened before privileges and
 * paths are given up. */
#pragma once

struct error;

struct programs {
    int self_dir;      /* O_PATH: where this program is */
    char *self_name;   /* and what it is called there */
    int runner;        /* mas-toolrunner */
    int toolnet;       /* mas-tool-net; -1 where it is not installed */
    int default_image; /* default-image.tar, plain or compressed; -1 where there is none */
    int engine;        /* mas-engine; -1 where it is not installed */
    int warden;        /* mas-warden */
    int oci;           /* mas-oci; -1 where it is not installed */
    int intercept;     /* mas-intercept; -1 where it is not installed */
    int vmm;           /* mas-vmm; -1 where it is not installed */
    int net;           /* mas-net; -1 where it is not installed */
    int kube;          /* mas-kube; -1 where it is not installed */
};

#define PROGRAMS_INIT                                                                              \
    {                                                                                              \
        .self_dir = -1, .runner = -1, .toolnet = -1, .default_image = -1, .engine = -1,            \
        .warden = -1, .oci = -1, .intercept = -1, .vmm = -1, .net = -1, .kube = -1                 \
    }

/* dir: where to look; NULL: beside this program, then in the libexec directory it was built for. */
int programs_open(struct programs *p, const char *dir, struct error *err);
