/* SPDX-License-Identifier: Apache-2.0 */
/* The file that runtime_config names: every member, every check with its own message. */
#include "config/machine.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config.h"
#include "tests/unit/tap.h"

/* A file that is good, with a part of it to be put in another's place. */
#define FIRST                                                                                      \
    "\"firecracker_bin\":\"/usr/bin/firecracker\",\"kernel_image\":\"/k\",\"rootfs\":\"/r\","
#define VSOCK "\"vsock\":{\"cid\":3,\"port\":5000,\"uds_path\":\"/tmp/{id}.vsock\"}"
#define GOOD  FIRST VSOCK

#define is(have, want, what) ok(strcmp(have, want) == 0, "%s (%s)", what, have)

static struct config_problems problems;
static struct machine_config m;
static struct machine_sizes sizes;

static const char *parse(const char *text)
{
    config_problems_done(&problems);
    config_problems_init(&problems);
    machine_config_init(&m, "/machines");
    sizes = (struct machine_sizes){0};
    machine_config_parse(&m, &sizes, "x.json", text, strlen(text), &problems);
    return problems.errors.data ? problems.errors.data : "";
}

/* Every member of the contract's, as its own clients write them. */
static void test_contract(void)
{
    const char *text =
        "{\"firecracker_bin\":\"/usr/local/bin/firecracker\",\"kernel_image\":\"/var/lib/vm/vmlinux\","
        "\"rootfs\":\"/var/lib/vm/rootfs.ext4\",\"snapshot\":\"\","
        "\"api_socket\":\"/tmp/firecracker-{id}.sock\",\"log_path\":\"/tmp/fc-{id}.log\","
        "\"metrics_path\":\"/tmp/fc-{id}.metrics\",\"boot_args\":\"console=ttyS0 quiet\","
        "\"machine\":{\"vcpu_count\":2,\"mem_mib\":768},"
        "\"vsock\":{\"cid\":3,\"port\":5001,\"uds_path\":\"/tmp/firecracker-{id}.vsock\"},"
        "\"tool_runner\":{\"command\":\"/usr/bin/mas-toolrunner-client\","
        "\"args\":[\"--vsock\",\"{vsock_uds}\",\"--timeout\",\"10s\",\"{api_socket}\",\"{id}\"]},"
        "\"network\":{\"enabled\":false,\"tap_device\":\"tap-{id}\","
        "\"mac_address\":\"AA:FC:00:00:00:01\",\"allowed_cidrs\":[\"10.0.0.0/8\",\"192.0.2.7\"]},"
        "\"drives\":[{\"drive_id\":\"data\",\"path_on_host\":\"/var/lib/vm/data.ext4\","
        "\"is_read_only\":true,\"is_root_device\":false},\"/var/lib/vm/more.ext4\"],"
        "\"cgroup\":{\"path\":\"\",\"cpu_quota_us\":50000,\"memory_max_bytes\":1073741824},"
        "\"pool\":{\"size\":2}}";
    is(parse(text), "", "the contract's members are all taken");
    is(m.firecracker_bin, "/usr/local/bin/firecracker", "the program");
    is(m.uds_path, "/tmp/firecracker-{id}.vsock", "a path with an id");
    ok(m.cid == 3 && m.port == 5001 && m.vmm == MACHINE_AUTO, "vsock");
    ok(sizes.vcpu_count == 2 && sizes.mem_mib == 768 && sizes.pool_size == 2, "sizes");
    ok(m.cpu_quota_us == 50000 && m.memory_max_bytes == 1 << 30, "the group's limits");
    ok(m.n_drives == 2 && !m.drives[0].writable && !m.drives[1].writable, "drives");
    is(m.drives[0].id, "data", "a drive's name");
    is(m.drives[1].path, "/var/lib/vm/more.ext4", "a drive that is only a path");
    is(m.boot_args, "console=ttyS0 quiet", "the kernel's line");
    ok(m.network_closed && !m.n_cidrs,
       "a network that is not enabled is closed, whatever it lists");
}

static void test_defaults(void)
{
    is(parse("{" GOOD "}"), "", "the least that is needed");
    ok(m.port == 5000 && !sizes.vcpu_count && !sizes.mem_mib && !sizes.pool_size, "numbers");
    is(m.boot_args, "", "the line is the emulator's own");
    ok(!m.network_closed, "nothing about a network leaves it to network_cidrs");
    is(parse("{" GOOD ",\"network\":{}}"), "", "a network that says nothing");
    ok(m.network_closed, "is not enabled");
    is(parse("{" GOOD ",\"network\":{\"enabled\":true,\"tap_device\":\"tap0\","
             "\"allowed_cidrs\":[\"192.0.2.0/24\"]}}"),
       "", "one that is");
    ok(!m.network_closed && m.n_cidrs == 1, "has what it lists");
    is(parse("{" GOOD "}"), "", "the least once more");
    is(m.initramfs, "/machines/initramfs", "the initramfs is the one that was made");
    is(m.qemu_bin, "/usr/bin/qemu-system-x86_64", "QEMU");
    is(parse("{\"vsock\":{\"cid\":3,\"uds_path\":\"/u\"}," FIRST "\"pool\":{\"size\":1}}"), "",
       "a port need not be said, nor an id where there is one machine");
    machine_config_init(&m, "/machines");
    is(m.kernel_image, "/machines/vmlinux", "without a file: the kernel that was made");
    is(m.uds_path, "", "and no socket");
    is(m.firecracker_bin, "", "and no Firecracker, which only an operator's file can ask for");
}

static void test_ours(void)
{
    is(parse(
           "{\"vmm\":\"qemu\",\"qemu_bin\":\"/opt/qemu\",\"kernel_image\":\"/k\",\"rootfs\":\"/r\","
           "\"initramfs\":\"/i\"," VSOCK "}"),
       "", "QEMU needs no Firecracker");
    ok(m.vmm == MACHINE_QEMU && strcmp(m.qemu_bin, "/opt/qemu") == 0, "it is chosen");
    is(parse("{" GOOD ",\"qemu_bin\":\"/opt/qemu\"}"), "", "both programs are named");
    ok(m.vmm == MACHINE_QEMU, "and auto is QEMU");
    is(parse("{" GOOD
             ",\"rootfs_rate_limiter\":{\"bandwidth\":{\"size\":1000,\"refill_time\":100}},"
             "\"drives\":[{\"id\":\"d\",\"path\":\"/d\",\"rate_limiter\":{\"ops\":{\"size\":10,"
             "\"one_time_burst\":5,\"refill_time\":1000}}}]}"),
       "", "rates");
    ok(m.rootfs_rate.bytes.size == 1000 && m.rootfs_rate.bytes.refill_ms == 100 &&
           m.drives[0].rate.operations.burst == 5,
       "are read");
    is(parse("{" GOOD ",\"drives\":[{\"path\":\"/d\",\"is_read_only\":false},\"/e\"]}"), "",
       "a drive that can be written");
    ok(m.drives[0].writable && !m.drives[1].writable, "is so where the file says it, only");
}

static void test_refusals(void)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "invalid JSON: empty"},
        {"[]", "object"},
        {"{\"kernel_image\":\"/k\",\"rootfs\":\"/r\"," VSOCK "}", "firecracker_bin is required"},
        {"{\"firecracker_bin\":\"/f\",\"rootfs\":\"/r\"," VSOCK "}", "kernel_image is required"},
        {"{\"firecracker_bin\":\"/f\",\"kernel_image\":\"/k\"," VSOCK "}", "rootfs is required"},
        {"{" FIRST "\"vsock\":{\"uds_path\":\"/u\"}}", "vsock.cid is required"},
        {"{" FIRST "\"vsock\":{\"cid\":3}}", "vsock.uds_path is required"},
        {"{" FIRST "\"vsock\":{\"cid\":3,\"port\":0,\"uds_path\":\"/u\"}}",
         "vsock.port is not a number from 1 to"},
        {"{" FIRST "\"vsock\":{\"cid\":2,\"uds_path\":\"/u\"}}",
         "vsock.cid is not a number from 3"},
        {"{" GOOD ",\"network\":{\"enabled\":true}}",
         "network.tap_device is required when network is enabled"},
        {"{" GOOD ",\"api_socket\":\"/a\",\"pool\":{\"size\":2}}",
         "api_socket: {id} is required in it when pool.size is more than 1"},
        {"{" FIRST "\"vsock\":{\"cid\":3,\"uds_path\":\"/u\"},\"pool\":{\"size\":2}}",
         "vsock.uds_path: {id} is required"},
        {"{" GOOD ",\"network\":{\"tap_device\":\"tap0\"},\"pool\":{\"size\":2}}",
         "network.tap_device: {id} is required"},
        {"{" GOOD ",\"kernel_imgae\":\"/k\"}", "did you mean 'kernel_image'"},
        {"{" GOOD ",\"machine\":{\"vcpus\":1}}", "machine.vcpus"},
        {"{" GOOD ",\"drives\":[{\"path_on_hots\":\"/x\"}]}", "path_on_hots"},
        {"{" GOOD ",\"machine\":{\"vcpu_count\":0}}", "machine.vcpu_count is not a number from 1"},
        {"{" GOOD ",\"machine\":{\"mem_mib\":64}}", "machine.mem_mib is not a number from 128"},
        {"{" GOOD ",\"machine\":[]}", "machine"},
        {"{" GOOD ",\"boot_args\":7}", "boot_args is not a text"},
        {"{" GOOD ",\"vmm\":\"xen\"}", "vmm: 'xen' must be firecracker, qemu or auto"},
        {"{" GOOD ",\"log_path\":\"/l/{pid}\"}", "log_path: '{pid}' is not a placeholder here"},
        {"{" GOOD ",\"tool_runner\":{\"args\":[]}}", "tool_runner.command is required"},
        {"{" GOOD ",\"tool_runner\":{\"command\":\"/c\",\"args\":[\"{uds}\"]}}",
         "tool_runner.args[0]: '{uds}' is not a placeholder"},
        {"{" GOOD ",\"tool_runner\":{\"command\":\"/c\",\"args\":[1]}}",
         "tool_runner.args[0] is not a text"},
        {"{" GOOD ",\"network\":{\"mac_address\":\"AA:FC\"}}",
         "network.mac_address: 'AA:FC' is not"},
        {"{" GOOD ",\"network\":{\"allowed_cidrs\":[\"example.com\"]}}",
         "network.allowed_cidrs[0] is not a network"},
        {"{" GOOD ",\"network\":{\"enabled\":true,\"tap_device\":\"tap0\"}}",
         "network.allowed_cidrs is required when network is enabled"},
        {"{\"vmm\":\"firecracker\"," GOOD ",\"network\":{\"enabled\":true,\"tap_device\":\"tap0\","
         "\"allowed_cidrs\":[\"192.0.2.0/24\"]}}",
         "network.enabled: Firecracker opens its links itself"},
        {"{" GOOD ",\"network\":{\"enabled\":1}}", "network.enabled is neither true nor false"},
        {"{" GOOD ",\"drives\":[{\"path\":\"/d\",\"is_read_only\":0}]}",
         "drives[0].is_read_only is neither true nor false"},
        {"{" GOOD ",\"drives\":[{\"path\":\"/d\",\"is_read_only\":false}],\"pool\":{\"size\":1}}",
         "pool.size: one machine at a time"},
        {"{\"vmm\":\"firecracker\"," GOOD ",\"drives\":[{\"path\":\"/d\",\"is_read_only\":false}]}",
         "drives: Firecracker opens its drives itself"},
        {"{" GOOD ",\"drives\":[{\"path\":\"/0\",\"is_read_only\":false},"
         "{\"path\":\"/1\",\"is_read_only\":false},{\"path\":\"/2\",\"is_read_only\":false},"
         "{\"path\":\"/3\",\"is_read_only\":false},{\"path\":\"/4\",\"is_read_only\":false}]}",
         "drives: more than 4 with is_read_only: false"},
        {"{" GOOD ",\"drives\":[{}]}", "drives[0].path_on_host is required"},
        {"{" GOOD ",\"drives\":[{\"path\":\"/d\",\"id\":\"a/b\"}]}",
         "drives[0].drive_id is not a name"},
        {"{" GOOD ",\"drives\":[{\"path\":\"/d\",\"id\":\"a\"},{\"path\":\"/e\",\"id\":\"a\"}]}",
         "drives[1].drive_id: 'a' is there twice"},
        {"{" GOOD ",\"drives\":[{\"path\":\"/d\",\"is_root_device\":true}]}",
         "drives[0].is_root_device: the root is what rootfs names"},
        {"{" GOOD ",\"drives\":[{\"path\":\"/d\",\"rate_limiter\":{\"ops\":{\"size\":1}}}]}",
         "drives[0].rate_limiter.ops: size and refill_time are required"},
        {"{" GOOD ",\"cgroup\":{\"cpu_quota_us\":1}}",
         "cgroup.cpu_quota_us is not a number from 1000"},
        {"{" GOOD ",\"pool\":{\"size\":-1}}", "pool.size is not a number from 0"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        const char *said = parse(cases[i].text);
        ok(strstr(said, cases[i].error) && strstr(said, "runtime_config: x.json: "),
           "refused: %s (%s)", cases[i].error, said);
    }
}

/* What the control plane is handed in place of the file. */
static void test_cidrs_handed_over(void)
{
    static const char *const places[] = {"11.0.0.0/8", "192.0.2.7:80", "fd00::/8", "[2600::7]:443"};
    struct machine_config from = {.network_closed = 1}, to = {0};
    for (size_t i = 0; i < ELEMENTS(places); i++)
        ok(net_range_parse(places[i], &from.cidrs[from.n_cidrs++]) == 0, "'%s'", places[i]);
    char **texts = machine_cidrs_format(&from);
    machine_cidrs_take(&to, texts);
    ok(to.n_cidrs == from.n_cidrs && to.network_closed == 1 &&
           memcmp(to.cidrs, from.cidrs, sizeof(from.cidrs)) == 0,
       "ranges are the same after they were texts");
    strv_free(texts);
}

int main(void)
{
    test_cidrs_handed_over();
    test_contract();
    test_defaults();
    test_ours();
    test_refusals();
    config_problems_done(&problems);
    return tap_done();
}
