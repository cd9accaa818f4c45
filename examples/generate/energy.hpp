// The energy of a run: NVML's counter on a GPU, RAPL's on a CPU, where they can be read.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace multidraft::examples {

/// Reads energy counters. They count the whole package or GPU: nothing else should run during a measurement.
class energy_meter {
public:
    /// With `gpu` the first GPU's counter, else those of the CPU's packages.
    explicit energy_meter(bool gpu) {
        if (gpu)
            open_nvml();
        else
            open_rapl("/sys/class/powercap");
    }
    /// The counters below another directory, for tests.
    explicit energy_meter(std::filesystem::path const& powercap) { open_rapl(powercap); }
    ~energy_meter() {
        if (library_ != nullptr) dlclose(library_);
    }
    energy_meter(energy_meter const&) = delete;
    energy_meter& operator=(energy_meter const&) = delete;

    [[nodiscard]] bool available() const { return read_gpu_ != nullptr || !zones_.empty(); }
    /// The source of the numbers, or why there are none.
    [[nodiscard]] std::string const& source() const { return source_; }

    void start() { (void)take(); }
    /// Joules since the last `start` or `joules`. A RAPL counter may wrap once meanwhile.
    [[nodiscard]] std::optional<double> joules() { return take(); }

private:
    struct zone {
        std::filesystem::path file;
        double range = 0;  ///< microjoules after which the counter wraps
        double last = 0;
    };

    static std::optional<double> number_in(std::filesystem::path const& file) {
        std::ifstream in(file);
        double x = 0;
        if (!(in >> x)) return std::nullopt;
        return x;
    }

    void open_rapl(std::filesystem::path const& root) {
        source_ = "unavailable: no RAPL counters below " + root.string();
        std::error_code error;
        std::vector<std::filesystem::path> found;
        for (auto const& entry : std::filesystem::directory_iterator(root, error)) {
            std::string const name = entry.path().filename().string();
            // Packages are intel-rapl:0, intel-rapl:1, .. (AMD's too); intel-rapl:0:0 is a part of one.
            if (name.starts_with("intel-rapl:") && std::count(name.begin(), name.end(), ':') == 1)
                found.push_back(entry.path());
        }
        std::sort(found.begin(), found.end());
        for (auto const& path : found) {
            auto const now = number_in(path / "energy_uj");
            if (!now) {
                source_ = "unavailable: " + (path / "energy_uj").string() + " may not be read";
                zones_.clear();
                return;
            }
            zones_.push_back({path / "energy_uj", number_in(path / "max_energy_range_uj").value_or(0), *now});
        }
        if (!zones_.empty()) source_ = "RAPL, " + std::to_string(zones_.size()) + " package(s)";
    }

    void open_nvml() {
        source_ = "unavailable: no NVML (libnvidia-ml.so.1)";
        library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library_ == nullptr) return;
        auto const init = reinterpret_cast<int (*)()>(dlsym(library_, "nvmlInit_v2"));
        auto const handle =
            reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library_, "nvmlDeviceGetHandleByIndex_v2"));
        auto const read = reinterpret_cast<int (*)(void*, unsigned long long*)>(
            dlsym(library_, "nvmlDeviceGetTotalEnergyConsumption"));
        unsigned long long now = 0;
        if (init == nullptr || handle == nullptr || read == nullptr || init() != 0 || handle(0, &device_) != 0 ||
            read(device_, &now) != 0) {
            source_ = "unavailable: the GPU has no energy counter";
            return;
        }
        read_gpu_ = read;
        last_gpu_ = now;
        source_ = "NVML, GPU 0";
    }

    std::optional<double> take() {
        if (read_gpu_ != nullptr) {
            unsigned long long now = 0;
            if (read_gpu_(device_, &now) != 0) return std::nullopt;
            return 1e-3 * static_cast<double>(now - std::exchange(last_gpu_, now));
        }
        if (zones_.empty()) return std::nullopt;
        double sum = 0;
        for (zone& z : zones_) {
            auto const now = number_in(z.file);
            if (!now) return std::nullopt;
            double const used = *now - std::exchange(z.last, *now);
            sum += used >= 0 ? used : used + z.range;
        }
        return 1e-6 * sum;
    }

    std::string source_;
    std::vector<zone> zones_;
    void* library_ = nullptr;
    void* device_ = nullptr;
    int (*read_gpu_)(void*, unsigned long long*) = nullptr;
    unsigned long long last_gpu_ = 0;
};

}  // namespace multidraft::examples
