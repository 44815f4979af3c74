-- Admits many buyers in one run. All reads and checks of an order come before its
-- writes, and the run is idempotent by order id, because clients and their
-- libraries resend.
--
-- KEYS gate stock orders buyers keys pending
-- ARGV epoch, most pending orders, then for each order: id user sku quantity key
--
-- Replies with one status word for the whole gate and, if that is "open", one
-- string an order:
--   ok AT             reserved now, at AT (ms of this server's clock)
--   known ID RECORD   this order, or the one that the key or the limit points to
--   limit ID...       the limit would be passed; the buyer's newest charged orders
--   ended | not-started | paused | sold-out | no-sku | backlog | bad
--
-- An order that is known is told before the window is looked at: a buyer whose
-- answer got lost just before the end has to learn the truth after it.
--
-- All orders are read in one call each and written in one call each: what an order costs
-- here is calls, not work. In between, `records`, `entries` and `earlier` are what the
-- hashes would say.
local gate, refusal = open_gate(KEYS[1], ARGV[1], 'sale', 'starts', 'ends')
if not gate then return refusal end
local refused, now = refused_now(gate[4], gate[5], gate[6])
local at = string.format('%.0f', now)
local room = tonumber(ARGV[2]) - redis.call('ZCARD', KEYS[6])
local limits, stocks, taken = {}, {}, {}

-- The fields of a hash, by name.
local function read(key, fields)
  local found = {}
  if #fields > 0 then
    local values = redis.call('HMGET', key, unpack(fields))
    for i = 1, #fields do found[fields[i]] = values[i] end
  end
  return found
end

local ids, buyers, fields = {}, {}, {}
for i = 3, #ARGV, 5 do
  ids[#ids + 1] = ARGV[i]
  buyers[#buyers + 1] = ARGV[i + 2] .. ' ' .. ARGV[i + 1]
  if ARGV[i + 4] ~= '' then fields[#fields + 1] = #ARGV[i + 1] .. ' ' .. ARGV[i + 1] .. ARGV[i + 4] end
end
local records, entries, earlier = read(KEYS[3], ids), read(KEYS[4], buyers), read(KEYS[5], fields)
local new_records, new_entries, new_keys, new_pending = {}, {}, {}, {}

local function put(list, field, value)
  list[#list + 1] = field
  list[#list + 1] = value
end

local function known(id)
  local record = records[id]
  if record == nil then record = redis.call('HGET', KEYS[3], id) end
  return 'known ' .. id .. ' ' .. record
end

local function limit_of(sku)
  if limits[sku] == nil then
    limits[sku] = tonumber(redis.call('HGET', KEYS[1], 'limit:' .. sku) or false) or false
    stocks[sku] = tonumber(redis.call('HGET', KEYS[2], sku) or '0')
  end
  return limits[sku]
end

local function admit(id, user, sku, quantity, key)
  if records[id] then return known(id) end
  local field = #user .. ' ' .. user .. key
  if key ~= '' and earlier[field] then return known(earlier[field]) end
  local n = tonumber(quantity)
  if not n or n < 1 or n > 1000000 or n ~= math.floor(n) then return 'bad' end
  local limit = limit_of(sku)
  if not limit then return refused or 'no-sku' end

  local buyer = sku .. ' ' .. user
  local charged, mine = 0, ''
  if entries[buyer] then
    local units, rest = entries[buyer]:match('^(%d+)(.*)$')
    charged, mine = tonumber(units), rest
  end
  if charged + n > limit then
    if limit == 1 and n == 1 and key == '' then return known(mine:match('%S+')) end
    return refused or 'limit' .. mine
  end
  if refused then return refused end
  if stocks[sku] < n then return 'sold-out' end
  if room < 1 then return 'backlog' end

  room = room - 1
  stocks[sku], taken[sku] = stocks[sku] - n, (taken[sku] or 0) + n
  records[id] = 'p ' .. quantity .. ' ' .. at .. ' ' .. sku .. ' ' .. field
  put(new_records, id, records[id])
  -- At most 32 ids are kept, newest first: they are only shown, the units count.
  entries[buyer] = string.format('%d', charged + n) .. ' ' .. id .. mine:sub(1, 31 * 23)
  put(new_entries, buyer, entries[buyer])
  if key ~= '' then
    earlier[field] = id
    put(new_keys, field, id)
  end
  put(new_pending, at, id)
  return 'ok ' .. at
end

local reply = {'open'}
for i = 3, #ARGV, 5 do
  reply[#reply + 1] = admit(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end
for sku, n in pairs(taken) do redis.call('HINCRBY', KEYS[2], sku, string.format('%d', -n)) end
if #new_records > 0 then
  redis.call('HSET', KEYS[3], unpack(new_records))
  redis.call('HSET', KEYS[4], unpack(new_entries))
  redis.call('ZADD', KEYS[6], unpack(new_pending))
end
if #new_keys > 0 then redis.call('HSET', KEYS[5], unpack(new_keys)) end
return reply
