"""The Lua scripts of the Redis store: `limits/decision.py` as Redis runs it, each script in one atomic step.

A property test compares both. Times are those of Redis, so that clocks of gateways may differ; tests pass their own.
Lua's numbers are doubles: all amounts stay below 2^53, and are written with `%.0f` since Lua's own form has 14 digits.
Each script has the keys of one client key only, with its id as the hash tag, so that a cluster can run it.
"""

from __future__ import annotations

from dragoman_server.accounts.limits.claim import KEPT_MS, LEASE_MS
from dragoman_server.accounts.limits.decision import AHEAD_MS, OTHER_PERIODS, SCALE

STATE_MS = 40 * 86_400_000
"""Time after which counters that were not used are dropped: longer than a month."""
VERSIONS = 10_000
"""Most versions of the keys whose marks are kept."""
LEASES_MS = 2 * KEPT_MS
"""Time after which the leases of a key that is not used are dropped."""

_COMMON = f"""
local SCALE, LEASE_MS, KEPT_MS, STATE_MS, LEASES_MS = {SCALE}, {LEASE_MS}, {KEPT_MS}, {STATE_MS}, {LEASES_MS}
local AHEAD_MS, OTHER_PERIODS = {AHEAD_MS}, {OTHER_PERIODS}
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function text(number) return string.format('%.0f', number) end
"""

_CLAIMS = """
local state, at = KEYS[1], 5
local buckets, budgets, periods = {}, {}, {}
local function read_periods()
  -- The civil date of a number of days since 1970-01-01, in years that begin in March.
  local days = math.floor(now / 86400000) + 719468
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - 365 * year - math.floor(year / 4) + math.floor(year / 100)
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  year = year + era * 400
  if month < 10 then month = month + 3 else month, year = month - 9, year + 1 end
  periods[2] = string.format('%04d-%02d', year, month)
  periods[1] = periods[2] .. string.format('-%02d', day)
end
local function turn(part)
  if part.current == part.period then return end
  local found, kept = 0, {}
  if part.current then kept[1] = part.current .. '=' .. text(part.spent) end
  for other, sum in string.gmatch(part.others, '(%S+)=(%d+)') do
    if other == part.period then
      found = tonumber(sum)
    elseif #kept < OTHER_PERIODS then
      kept[#kept + 1] = other .. '=' .. sum
    end
  end
  part.current, part.spent, part.others = part.period, found, table.concat(kept, ' ')
end
local function change(part, amount)
  if part.current == part.period then
    part.spent = math.max(0, part.spent + amount)
    return
  end
  local kept = {}
  for other, sum in string.gmatch(part.others, '(%S+)=(%d+)') do
    if other == part.period then sum = text(math.max(0, tonumber(sum) + amount)) end
    kept[#kept + 1] = other .. '=' .. sum
  end
  part.others = table.concat(kept, ' ')
end
for i = 1, tonumber(ARGV[4]) do
  local part = {name = ARGV[at], limit = tonumber(ARGV[at + 1]), amount = tonumber(ARGV[at + 2])}
  at = at + 3
  local full = part.limit * SCALE
  local found = redis.call('HMGET', state, part.name .. ':level', part.name .. ':at')
  local level, filled = tonumber(found[1]), tonumber(found[2])
  if not level or filled - now > AHEAD_MS then
    part.level, part.at = full, now
  elseif now > filled then
    part.level, part.at = math.min(full, level + (now - filled) * part.limit), now
  else
    part.level, part.at = math.min(full, level), filled
  end
  part.full = full
  buckets[i] = part
end
if ARGV[at] ~= '0' then read_periods() end
for i = 1, tonumber(ARGV[at]) do
  local part = {name = ARGV[at + 1], span = tonumber(ARGV[at + 2]), limit = tonumber(ARGV[at + 3]),
                amount = tonumber(ARGV[at + 4]), period = ARGV[at + 5], hold = tonumber(ARGV[at + 6])}
  at = at + 6
  local found = redis.call('HMGET', state, part.name .. ':period', part.name .. ':spent', part.name .. ':others')
  part.current, part.spent, part.others = found[1], tonumber(found[2]), found[3] or ''
  if part.period == '' then
    part.period = periods[part.span + 1]
    turn(part)
  end
  budgets[i] = part
end
local function write()
  for _, part in ipairs(buckets) do
    redis.call('HSET', state, part.name .. ':level', text(part.level), part.name .. ':at', text(part.at))
  end
  for _, part in ipairs(budgets) do
    if part.current then
      redis.call('HSET', state, part.name .. ':period', part.current, part.name .. ':spent', text(part.spent),
                 part.name .. ':others', part.others)
    end
  end
  if #buckets + #budgets > 0 then redis.call('PEXPIRE', state, text(STATE_MS)) end
end
"""
"""Reads the claims from ARGV[4] on, with the state of each. KEYS[1] is the hash of the counters.

A bucket is `name, limit, amount`; a budget `name, span, limit, amount, period, hold`. An empty period is that of now. A
negative hold is that of a claim with `holds_less`. A field `others` has the sums of other periods, such as
`2026-11-21=7 2026-11-20=3`.
"""

_HOLDS = """
local held, held_until = KEYS[3], KEYS[4]
local function release(lease)
  local spec = redis.call('HGET', held, lease)
  if not spec then return end
  for field, amount in string.gmatch(spec, '(%S+)=(%d+)') do
    if redis.call('HINCRBY', held, '=' .. field, '-' .. amount) <= 0 then redis.call('HDEL', held, '=' .. field) end
  end
  redis.call('HDEL', held, lease)
  redis.call('ZREM', held_until, lease)
end
"""
"""Reservations. KEYS[3] is a hash of leases, such as `daily_cost@2026-11-22=500`, with the sum of all of them in the
field `=daily_cost@2026-11-22`. KEYS[4] has the times at which they end."""

ADMIT = (
    _COMMON
    + _CLAIMS
    + _HOLDS
    + """
local leases, lease, concurrent, rejected = KEYS[2], ARGV[2], tonumber(ARGV[3]), {}
redis.call('ZREMRANGEBYSCORE', leases, '-inf', text(now - KEPT_MS))
local open = redis.call('ZCOUNT', leases, '(' .. text(now), '+inf')
if concurrent > 0 and open >= concurrent then rejected[#rejected + 1] = 'concurrent' end
for _, part in ipairs(buckets) do
  if part.level < math.min(part.amount, part.limit) * SCALE then rejected[#rejected + 1] = part.name end
end
if #budgets > 0 then
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', held_until, '-inf', text(now))) do release(each) end
end
for _, part in ipairs(budgets) do
  part.held = tonumber(redis.call('HGET', held, '=' .. part.name .. '@' .. part.period) or 0)
  local least = part.hold
  if least < 0 then least = part.held == 0 and 1 or -least end
  if part.spent + part.held + part.amount + least > part.limit then rejected[#rejected + 1] = part.name end
end
if #rejected == 0 then
  open = open + 1
  redis.call('ZADD', leases, text(now + LEASE_MS), lease)
  redis.call('PEXPIRE', leases, text(LEASES_MS))
  for _, part in ipairs(buckets) do part.level = part.level - part.amount * SCALE end
  local spec = {}
  for i, part in ipairs(budgets) do
    part.spent = part.spent + part.amount
    local hold = math.min(math.abs(part.hold), part.limit - part.spent - part.held)
    if hold > 0 then spec[#spec + 1] = part.name .. '@' .. part.period .. '=' .. text(hold) end
  end
  if #budgets > 0 then release(lease) end
  if #spec > 0 then
    for field, amount in string.gmatch(table.concat(spec, ' '), '(%S+)=(%d+)') do
      redis.call('HINCRBY', held, '=' .. field, amount)
    end
    redis.call('HSET', held, lease, table.concat(spec, ' '))
    redis.call('ZADD', held_until, text(now + LEASE_MS), lease)
    redis.call('PEXPIRE', held, text(LEASES_MS))
    redis.call('PEXPIRE', held_until, text(LEASES_MS))
  end
  write()
end
local levels, spent, others = {}, {}, {}
for i, part in ipairs(buckets) do levels[i] = text(part.level) end
for i, part in ipairs(budgets) do spent[i], others[i] = text(part.spent), text(part.held) end
local lists = {rejected, {text(open)}, levels, spent, others, {text(now)}}
for i, list in ipairs(lists) do lists[i] = table.concat(list, ',') end
return table.concat(lists, '|')
"""
)
"""KEYS: counters, leases, reservations, their ends. ARGV: now, lease, concurrent, claims.

Return the fields of `Outcome` as one text, which is read faster than nested lists: `|` between fields, `,` in them.
"""

SETTLE = (
    _COMMON
    + _CLAIMS
    + _HOLDS
    + """
if ARGV[3] == '1' then
  release(ARGV[2])
  local expires = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or 0)
  if redis.call('ZREM', KEYS[2], ARGV[2]) == 0 or expires <= now - KEPT_MS then return 0 end
elseif not redis.call('SET', KEYS[5], '1', 'NX', 'PX', text(KEPT_MS)) then
  return 0
end
for _, part in ipairs(buckets) do
  part.level = math.min(part.level - part.amount * SCALE, part.full)
end
for _, part in ipairs(budgets) do
  if part.current then change(part, part.amount) end
end
write()
return 1
"""
)
"""KEYS: counters, leases, reservations, their ends, mark. ARGV: now, lease, granted, claims.

Return 1 if this was the first time.
"""

RENEW = (
    _COMMON
    + """
local expires = text(now + LEASE_MS)
for i = 2, #ARGV do
  if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or 0) > now - KEPT_MS then
    redis.call('ZADD', KEYS[1], 'XX', expires, ARGV[i])
  end
  -- A reservation that has ended may have been granted to others.
  if tonumber(redis.call('ZSCORE', KEYS[3], ARGV[i]) or 0) > now then redis.call('ZADD', KEYS[3], expires, ARGV[i]) end
end
for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], text(LEASES_MS)) end
"""
)
"""KEYS: leases, reservations, their ends. ARGV: now, leases."""

_NEXT_VERSION = f"""
local function next_version(random)
  local version = redis.call('INCR', KEYS[2])
  redis.call('HSET', KEYS[3], version, random .. ' ' .. redis.call('HLEN', KEYS[1]))
  redis.call('HDEL', KEYS[3], version - {VERSIONS})
end
"""
"""Each version of the keys has a mark: a random word and the number of keys. The marks of past versions are kept, so a
process finds the mark of the version that it knows unless the keys were lost since, even if others were put then."""

PUT_KEY = (
    _NEXT_VERSION
    + """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
next_version(ARGV[4])
return 1
"""
)
"""KEYS: the keys, their version, the marks. ARGV: id, record, most keys, a random word."""

REMOVE_KEY = (
    _NEXT_VERSION
    + """
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
next_version(ARGV[2])
return 1
"""
)
"""KEYS: the keys, their version, the marks. ARGV: id, a random word."""

READ_KEYS = """
local version = tonumber(redis.call('GET', KEYS[2]) or 0)
local mark = redis.call('HGET', KEYS[3], version) or ''
local known, known_mark = tonumber(ARGV[1]), ARGV[2]
local whole = mark == '' or redis.call('HLEN', KEYS[1]) == tonumber(string.match(mark, '%d+$'))
if known then
  if version < known or (redis.call('HGET', KEYS[3], known) or '') ~= known_mark then whole = false end
  if whole and version == known then return {} end
end
return {version, mark, whole and 1 or 0, redis.call('HVALS', KEYS[1])}
"""
"""KEYS: the keys, their version, the marks. ARGV: the version and the mark that are known, or nothing.

Return the version, its mark, 1 if no keys were lost, and the records; nothing if the version is the known one.
"""

PROBE = """
redis.call('SET', KEYS[1], ARGV[1], 'NX')
redis.call('SET', KEYS[2], '', 'PX', 60000)
return redis.call('GET', KEYS[1])
"""
"""KEYS: a word that stays as long as Redis keeps its data, and one that is only written. ARGV: a random word.

Return the first.
"""

NOW = "return redis.call('TIME')"
"""KEYS: any, for the node of a cluster. Return seconds and microseconds."""

COOL = (
    _COMMON
    + """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now))
redis.call('ZADD', KEYS[1], 'GT', text(now + tonumber(ARGV[3])), ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[4]))
"""
)
"""KEYS: cooldowns. ARGV: now, name, milliseconds, most cooldowns."""

COOLDOWNS = (
    _COMMON
    + """
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now), '+inf', 'WITHSCORES')
for i = 2, #found, 2 do found[i] = text(tonumber(found[i]) - now) end
return found
"""
)
"""KEYS: cooldowns. ARGV: now. Return names and milliseconds in turn."""
